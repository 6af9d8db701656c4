"""Signs webhooks as a sender does (Standard Webhooks), on the standard library."""

import hashlib
import hmac
import time
from base64 import b64decode, b64encode


def make_secret(seed: str) -> str:
    """Return `whsec_<base64>`."""
    return "whsec_" + b64encode(hashlib.sha256(seed.encode()).digest()).decode()


def signature(secret: str, ident: str, sent_at: int, body: bytes) -> str:
    """Return `v1,<base64>`."""
    key = b64decode(secret.removeprefix("whsec_"))
    return (
        "v1,"
        + b64encode(
            hmac.new(key, f"{ident}.{sent_at}.".encode() + body, hashlib.sha256).digest()
        ).decode()
    )


def signed(body: bytes, *secrets: str, ident: str = "msg_1", age_s: int = 0) -> dict[str, str]:
    """Return the headers of a webhook that each of the secrets signed `age_s` ago."""
    sent_at = int(time.time()) - age_s
    return {
        "webhook-id": ident,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": " ".join(
            signature(secret, ident, sent_at, body) for secret in secrets
        ),
    }
