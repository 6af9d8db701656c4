/** CommonJS programs get the same client. */

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

test("require gives the client and the verification", () => {
  const require = createRequire(import.meta.url);
  assert.equal(typeof require("memrelay").Memrelay, "function");
  assert.equal(typeof require("memrelay/webhooks").verifyWebhook, "function");
});
