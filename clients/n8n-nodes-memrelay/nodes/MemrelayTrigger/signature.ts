import { createHmac, timingSafeEqual } from 'crypto';

// Seconds. An older request is one that somebody repeats.
const TOLERANCE = 300;

/**
 * Return whether Memrelay sent a request, by Standard Webhooks. Names of headers are lower case,
 * `body` is raw, and `now` is in milliseconds.
 */
export function isGenuine(
  secret: string,
  headers: Record<string, string | undefined>,
  body: Buffer,
  now: number,
): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': sentAt, 'webhook-signature': signatures } = headers;
  if (!secret || !id || !sentAt || !signatures) return false;
  // A time that is no number makes the comparison false.
  if (!(Math.abs(now / 1000 - Number(sentAt)) <= TOLERANCE)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const made = createHmac('sha256', key).update(`${id}.${sentAt}.`).update(body).digest('base64');
  const expected = Buffer.from(`v1,${made}`);
  return signatures.split(' ').some((one) => {
    const signature = Buffer.from(one);
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}
