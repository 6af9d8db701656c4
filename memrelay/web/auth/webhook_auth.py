"""Authentication of webhooks: by the agent's token, by a signature, or by a key.

Signatures follow Standard Webhooks. Rejected callers get the same response whether or not the
pipeline and the agent exist. The body is read after authentication. A signature covers the body,
so there the headers are checked first.
"""

import hmac
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from secrets import token_bytes

import structlog
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from memrelay.pipelines.check import CheckedAgent
from memrelay.pipelines.webhook_secrets import describe_secret_faults, parse_key, split_secrets
from memrelay.web.auth.access import set_caller
from memrelay.web.auth.authorizer import LOCAL_CALLER, get_bearer_token
from memrelay.web.server.connection_limits import claim_connection, reading_unverified
from memrelay.web.server.errors import NotAllowed, NotFound, Problem, Unauthorized
from memrelay.web.server.request_body import read_body
from memrelay.web.services import Services, get_services

log = structlog.stdlib.get_logger(__name__)

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# A sender with several secrets sends one signature for each.
MAX_SIGNATURES = 20
# A base64-encoded SHA-256. The library raises unrelated errors for anything else.
SIGNATURE_FORM = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
# The largest difference between a timestamp and this server's clock.
MAX_AGE_S = 300
# Stands in for missing secrets, so that all agents reject a signature in the same way.
UNKNOWN_SECRET = Webhook(token_bytes(32))
NO_MATCH = f"no {SIGNATURE} matches; the secret differs, or the body was changed after signing"
TOO_OLD = (
    f"{TIMESTAMP} differs from this server's clock by more than {MAX_AGE_S} s; sign the webhook "
    "again before resending it"
)
ACCEPTED_CREDENTIALS = (
    "this webhook accepts the agent's token (Authorization: Bearer TOKEN), a Standard Webhooks "
    "signature, or a key with the scope publish"
)


class BadSignature(ValueError):
    """The signature headers are invalid. The text names the violated rule."""


def verify_signature(headers: Mapping[str, str], body: bytes, webhooks: Sequence[Webhook]) -> None:
    """Check that one of the signatures matches one of the secrets.

    Raises BadSignature.
    """
    signed = check_signature_headers(headers)
    known = webhooks or [UNKNOWN_SECRET]
    if not any(_matches(webhook, signed, body) for webhook in known):
        raise BadSignature(NO_MATCH)


def check_signature_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Check all rules that need no body, and return the headers with well-formed signatures.

    The timestamp may differ from this server's clock by up to five minutes. Raises BadSignature.
    """
    sent_at = _check_signed_headers(headers)
    if abs(time.time() - int(sent_at)) > MAX_AGE_S:
        raise BadSignature(TOO_OLD)
    candidates = [
        one for one in headers[SIGNATURE].split()[:MAX_SIGNATURES] if SIGNATURE_FORM.fullmatch(one)
    ]
    if not candidates:
        raise BadSignature(NO_MATCH)
    return {ID: headers[ID], TIMESTAMP: sent_at, SIGNATURE: " ".join(candidates)}


def _check_signed_headers(headers: Mapping[str, str]) -> str:
    """Return the timestamp. Raises BadSignature."""
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not headers.get(name):
            raise BadSignature(
                f"the header {name} is missing; a signed webhook has {ID}, {TIMESTAMP}, and "
                f"{SIGNATURE}"
            )
    if "." in headers[ID]:
        # The signed text is ID.TIMESTAMP.BODY. With dots in the id, one text has several meanings.
        raise BadSignature(f"{ID} contains a dot; send an id without dots")
    sent_at = headers[TIMESTAMP]
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) < 16):
        raise BadSignature(f"{TIMESTAMP} is not a number of Unix seconds")
    return sent_at


def _matches(webhook: Webhook, headers: dict[str, str], body: bytes) -> bool:
    """Return whether a signature matches. Raises BadSignature for an expired timestamp."""
    try:
        webhook.verify(body, headers, json_parse=False)
    except WebhookVerificationError as error:
        if str(error).startswith("Message timestamp"):
            raise BadSignature(TOO_OLD) from error
        return False
    except UnicodeError:
        # The library signs text only, and the body or the id is not UTF-8.
        return False
    return True


def parse_secret(secret: str) -> Webhook:
    """Return the verifier of a secret `whsec_<base64>`. Raises ValueError if it is malformed."""
    return Webhook(parse_key(secret))


async def authenticate_webhook(request: web.Request, uid: str, agent: CheckedAgent | None) -> bytes:
    """Authenticate a request to an agent's webhook and return its body.

    `agent` is None if it does not exist. Raises Unauthorized, NotFound, NotAllowed, and the errors
    of `read_body`.
    """
    services, given = get_services(request), get_bearer_token(request)
    if agent is not None and await has_token(services, agent, given):
        claim_connection(request, f"webhook {uid}/{agent.agent.alias}")
        return await read_body(request)
    refusal = await _authorize_by_key(request, uid, agent)
    if refusal is None:
        return await read_body(request)
    if SIGNATURE not in request.headers and TIMESTAMP not in request.headers:
        raise refusal
    try:
        return await _read_signed_body(request, services, uid, agent)
    except BadSignature as error:
        is_default = refusal.detail == ACCEPTED_CREDENTIALS
        raise Unauthorized(str(error)) if is_default else refusal from None


async def _authorize_by_key(
    request: web.Request, uid: str, agent: CheckedAgent | None
) -> Problem | None:
    """Return why the caller may not use the webhook by its key or session, or None if it may."""
    try:
        caller = await get_services(request).authorizer.get_caller(request)
        if caller is LOCAL_CALLER and agent is not None and agent.is_guarded:
            return Unauthorized(ACCEPTED_CREDENTIALS)
        caller.check("publish", uid)
    except Unauthorized as error:
        has_key = get_bearer_token(request).startswith("mr_")
        return error if has_key else Unauthorized(ACCEPTED_CREDENTIALS)
    except (NotFound, NotAllowed) as error:
        return error
    set_caller(request, caller)
    return None


async def _read_signed_body(
    request: web.Request, services: Services, uid: str, agent: CheckedAgent | None
) -> bytes:
    """Return a body with a valid signature. Raises BadSignature and the errors of `read_body`."""
    check_signature_headers(request.headers)
    with reading_unverified(request):
        body = await read_body(request)
    references = agent.secrets if agent is not None else ()
    webhooks = [webhook for one in references for webhook in await _load_secrets(services, one)]
    verify_signature(request.headers, body, webhooks)
    if agent is not None:
        claim_connection(request, f"webhook {uid}/{agent.agent.alias}")
    return body


async def has_token(services: Services, agent: CheckedAgent, given: str) -> bool:
    """Compare a token with the agent's in constant time.

    An agent without a token, or with an unresolvable reference, matches nothing.
    """
    try:
        expected = await services.secrets.resolve(agent.token) if agent.token else ""
    except LookupError:
        return False
    return bool(expected) and hmac.compare_digest(
        expected.encode(), given.encode(errors="surrogateescape")
    )


async def _load_secrets(services: Services, reference: str) -> list[Webhook]:
    """Resolve a reference to its secrets. Logs and skips unusable ones."""
    found: list[Webhook] = []
    try:
        value = await services.secrets.resolve(reference)
    except LookupError as error:
        log.warning("webhook_secret_unusable", reference=reference, reason=str(error))
        return found
    for fault in describe_secret_faults(value):
        log.warning("webhook_secret_unusable", reference=reference, reason=f"{reference} {fault}")
    for secret in split_secrets(value):
        with suppress(ValueError):
            found.append(parse_secret(secret))
    return found
