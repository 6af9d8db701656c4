"""Signatures of outgoing webhooks, as Standard Webhooks defines them (standardwebhooks.com)."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from memrelay.pipelines.webhook_secrets import parse_key


def sign(secrets: Sequence[str], id_: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a delivery, with one signature for each secret.

    Raises ValueError: a secret is no `whsec_<base64>`.
    """
    text = f"{id_}.{at_s}.".encode() + body
    signatures = [
        "v1," + base64.b64encode(hmac.digest(parse_key(one), text, hashlib.sha256)).decode()
        for one in secrets
    ]
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(signatures),
    }
