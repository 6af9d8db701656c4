import { Webhook, WebhookVerificationError } from "standardwebhooks";

export { WebhookVerificationError };

/** An event of an endpoint (docs/endpoints.md). */
export interface WebhookEvent {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

type HeadersLike = Headers | Record<string, string | string[] | undefined>;

/**
 * Return the event of a request from an endpoint. `body` is the text as it arrived, `secret` that
 * of the endpoint (`whsec_...`); while a secret is rotated, give both.
 *
 * Throws WebhookVerificationError: the signature or the time is wrong.
 */
export function verifyWebhook(
  body: string,
  headers: HeadersLike,
  secret: string | string[],
): WebhookEvent {
  const given = readHeaders(headers);
  let fault: unknown = new TypeError("give the secret of the endpoint");
  for (const one of [secret].flat()) {
    try {
      return new Webhook(one).verify(body, given) as WebhookEvent;
    } catch (error) {
      fault = error;
    }
  }
  throw fault;
}

function readHeaders(headers: HeadersLike): Record<string, string> {
  const pairs: Iterable<[string, string | string[] | undefined]> =
    headers instanceof Headers ? headers.entries() : Object.entries(headers);
  const read: Record<string, string> = {};
  for (const [name, value] of pairs) {
    if (value !== undefined) read[name.toLowerCase()] = [value].flat().join(" ");
  }
  return read;
}
