/** Requests that the server has signed are verified, and changed ones are refused. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { verifyWebhook, WebhookVerificationError } from "memrelay/webhooks";

interface Signed {
  body: string;
  headers: Record<string, string>;
  secret: string;
}
const signed = JSON.parse(readFileSync(process.env["MEMRELAY_SIGNED"] ?? "", "utf8")) as Signed;
const { body, headers, secret } = signed;
const other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("a signed request gives its event", () => {
  assert.equal(verifyWebhook(body, headers, secret).type, "record.created");
  assert.equal(verifyWebhook(body, new Headers(headers), [other, secret]).type, "record.created");
});

type Forged = [name: string, body: string, headers: Record<string, string>, secret: string];
for (const [name, ...given] of [
  ["another body", body.replace("created", "deleted"), headers, secret],
  ["another secret", body, headers, other],
  ["no signature", body, { ...headers, "webhook-signature": "" }, secret],
  ["an old time", body, { ...headers, "webhook-timestamp": "1600000000" }, secret],
  ["another id", body, { ...headers, "webhook-id": "msg_other" }, secret],
  ["no headers", body, {}, secret],
] as Forged[]) {
  test(`${name} is refused`, () => {
    assert.throws(() => verifyWebhook(...given), WebhookVerificationError);
  });
}
