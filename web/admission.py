"""Whether a webhook is let in: by its agent's token, by a signature with one of its agent's
secrets, or by a key.

Who is not let in hears the same whatever pipeline or agent was named: what is there is told to
nobody who may not know it.
"""

import hmac
import logging
import time

from aiohttp import web

from pipelines.check import CheckedAgent
from web.authoriser import EVERYBODY, bearer_of
from web.errors import Unauthorised
from web.parts import Parts, parts_of
from web.signature import SIGNATURE, TIMESTAMP, BadSignature, key_of, verify

log = logging.getLogger(__name__)
HOW = (
    "this webhook takes only who sends its token (Authorization: Bearer TOKEN), a signature by its secret (Standard "
    "Webhooks), or a key with the scope publish"
)


async def admit(request: web.Request, uid: str, agent: CheckedAgent | None, body: bytes) -> None:
    """Lets a request to that agent's webhook in, or raises Unauthorised, NotFound or NotAllowed.
    None: no such agent."""
    parts, given = parts_of(request), bearer_of(request)
    if agent is not None and is_token(parts, agent, given):
        return
    is_signed = SIGNATURE in request.headers or TIMESTAMP in request.headers
    fault = _signature_fault(request, parts, agent, body) if is_signed else HOW
    if not fault:
        return
    try:
        caller = await parts.authoriser.caller(request)
    except Unauthorised:
        if given.startswith("mr_"):
            raise
        raise Unauthorised(fault) from None
    if caller is EVERYBODY and agent is not None and agent.is_guarded:
        raise Unauthorised(fault)
    caller.check("publish", uid)


def is_token(parts: Parts, agent: CheckedAgent, given: str) -> bool:
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
    request: web.Request, parts: Parts, agent: CheckedAgent | None, body: bytes
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


def _keys(parts: Parts, reference: str) -> list[bytes]:
    """The keys that a reference stands for: its secrets, with white space between. What is none
    fits nothing, and is logged."""
    found = []
    try:
        for secret in parts.secret(reference).split():
            found.append(key_of(secret))
    except (LookupError, ValueError) as error:
        log.warning("webhook_secret_unusable", extra={"reference": reference, "reason": str(error)})
    return found
