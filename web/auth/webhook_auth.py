"""Whether a webhook is let in: by its agent's token, by a signature with one of its agent's
secrets, or by a key.

Who is not let in hears the same whatever pipeline or agent was named: what is there is told to
nobody who may not know it.
"""

import binascii
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

import structlog
from aiohttp import web

from memrelay.pipelines.check import CheckedAgent
from memrelay.web.auth.authorizer import EVERYBODY, bearer_of
from memrelay.web.server.errors import Unauthorized
from memrelay.web.server.services import Services, services_of

# Signatures of webhooks as Standard Webhooks 1.0.0 has them
# (github.com/standard-webhooks/standard-webhooks, spec/).
#
# `webhook-id`, `webhook-timestamp` (Unix s) and `webhook-signature` (`v1,<base64>`, several with
# spaces between). Signed is
# `<id>.<timestamp>.<body>` by HMAC-SHA256, whose key is the base64 behind `whsec_`.

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


log = structlog.stdlib.get_logger(__name__)
HOW = (
    "this webhook takes only who sends its token (Authorization: Bearer TOKEN), a signature by its secret (Standard "
    "Webhooks), or a key with the scope publish"
)


async def admit(request: web.Request, uid: str, agent: CheckedAgent | None, body: bytes) -> None:
    """Lets a request to that agent's webhook in, or raises Unauthorized, NotFound or NotAllowed.
    None: no such agent."""
    parts, given = services_of(request), bearer_of(request)
    if agent is not None and is_token(parts, agent, given):
        return
    is_signed = SIGNATURE in request.headers or TIMESTAMP in request.headers
    fault = _signature_fault(request, parts, agent, body) if is_signed else HOW
    if not fault:
        return
    try:
        caller = await parts.authoriser.caller(request)
    except Unauthorized:
        if given.startswith("mr_"):
            raise
        raise Unauthorized(fault) from None
    if caller is EVERYBODY and agent is not None and agent.is_guarded:
        raise Unauthorized(fault)
    caller.check("publish", uid)


def is_token(parts: Services, agent: CheckedAgent, given: str) -> bool:
    """Compared in constant time. An agent without a token, or with a reference to nothing, has none
    that fits."""
    try:
        expected = parts.secret(agent.token) if agent.token else ""
    except LookupError:
        return False
    return bool(expected) and hmac.compare_digest(
        expected.encode(), given.encode(errors="surrogateescape")
    )


def _signature_fault(
    request: web.Request, parts: Services, agent: CheckedAgent | None, body: bytes
) -> str:
    """Which rule a signature breaks; "" for none."""
    keys = (
        [key for reference in agent.secrets for key in _keys(parts, reference)]
        if agent is not None
        else []
    )
    try:
        verify(request.headers, body, keys, time.time())
    except BadSignature as error:
        return str(error)
    return ""


def _keys(parts: Services, reference: str) -> list[bytes]:
    """The keys that a reference stands for: its secrets, with white space between. What is none
    fits nothing, and is logged."""
    found = []
    try:
        for secret in parts.secret(reference).split():
            found.append(key_of(secret))
    except (LookupError, ValueError) as error:
        log.warning("webhook_secret_unusable", reference=reference, reason=str(error))
    return found
