"""Signatures of webhooks as Standard Webhooks 1.0.0 has them
(github.com/standard-webhooks/standard-webhooks, spec/).

`webhook-id`, `webhook-timestamp` (Unix s) and `webhook-signature` (`v1,<base64>`, several with
spaces between). Signed is
`<id>.<timestamp>.<body>` by HMAC-SHA256, whose key is the base64 behind `whsec_`.
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_S = 300  # between the sender's clock and ours, either way
MOST_SIGNATURES = 20  # that are looked at; a sender has one for each of its keys
PREFIX = "whsec_"


class BadSignature(ValueError):
    """The text says which rule is broken."""


def verify(headers: Mapping[str, str], body: bytes, keys: Iterable[bytes], now_s: float) -> None:
    """Nothing happens where one of the signatures is by one of the keys. Raises BadSignature."""
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not headers.get(name):
            raise BadSignature(
                f"the header {name} is missing; a signed webhook has {ID}, {TIMESTAMP} and {SIGNATURE}"
            )
    sent_at = headers[TIMESTAMP]
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) < 16):
        raise BadSignature(f"{TIMESTAMP} is not a number of Unix seconds")
    if abs(now_s - int(sent_at)) > TOLERANCE_S:
        raise BadSignature(
            f"{TIMESTAMP} is more than {TOLERANCE_S} s off this server's clock; sign anew what is sent anew"
        )
    signed = f"{headers[ID]}.{sent_at}.".encode(errors="surrogateescape") + body
    given = [
        one[3:].encode(errors="replace")
        for one in headers[SIGNATURE].split()[:MOST_SIGNATURES]
        if one.startswith("v1,")
    ]
    fits = False
    for key in keys:
        expected = b64encode(hmac.digest(key, signed, "sha256"))
        for one in given:  # every one is looked at, whichever fits
            fits |= hmac.compare_digest(expected, one)
    if not fits:
        raise BadSignature(
            f"no {SIGNATURE} fits: it is by another key, or the body is not the one that was signed"
        )


def key_of(secret: str) -> bytes:
    """The key in `whsec_<base64>`. Raises ValueError for what is none."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a secret is {PREFIX} and base64") from error
    if not key:
        raise ValueError("a secret is empty")
    return key
