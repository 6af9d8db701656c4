"""Authentication of webhooks: by the agent's token, by a signature, or by a key.

Signatures follow Standard Webhooks. Rejected callers get the same response whether or not the
pipeline and the agent exist.
"""

import hmac
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from secrets import token_bytes

import structlog
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from memrelay.pipelines.check import CheckedAgent
from memrelay.web.auth.authorizer import LOCAL_CALLER, get_bearer_token
from memrelay.web.server.errors import Unauthorized
from memrelay.web.server.services import Services, get_services

log = structlog.stdlib.get_logger(__name__)

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# A sender with several secrets sends one signature for each.
MAX_SIGNATURES = 20
# A base64-encoded SHA-256. The library raises unrelated errors for anything else.
SIGNATURE_FORM = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
SECRET_PREFIX = "whsec_"
# Stands in for missing secrets, so that all agents reject a signature in the same way.
UNKNOWN_SECRET = Webhook(token_bytes(32))
ACCEPTED_CREDENTIALS = (
    "this webhook accepts the agent's token (Authorization: Bearer TOKEN), a Standard Webhooks "
    "signature, or a key with the scope publish"
)


class BadSignature(ValueError):
    """The signature headers are invalid. The text names the violated rule."""


def verify_signature(headers: Mapping[str, str], body: bytes, webhooks: Sequence[Webhook]) -> None:
    """Check that one of the signatures matches one of the secrets.

    The timestamp may differ from this server's clock by up to five minutes. Raises BadSignature.
    """
    sent_at = _check_signed_headers(headers)
    candidates = [
        one for one in headers[SIGNATURE].split()[:MAX_SIGNATURES] if SIGNATURE_FORM.fullmatch(one)
    ]
    signed = {ID: headers[ID], TIMESTAMP: sent_at, SIGNATURE: " ".join(candidates)}
    known = webhooks or [UNKNOWN_SECRET]
    if not (candidates and any(_matches(webhook, signed, body) for webhook in known)):
        raise BadSignature(
            f"no {SIGNATURE} matches; the secret differs, or the body was changed after signing"
        )


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
            raise BadSignature(
                f"{TIMESTAMP} differs from this server's clock by more than 300 s; sign the "
                "webhook again before resending it"
            ) from error
        return False
    except UnicodeError:
        # The library signs text only, and the body or the id is not UTF-8.
        return False
    return True


def parse_secret(secret: str) -> Webhook:
    """Return the verifier of a secret `whsec_<base64>`. Raises ValueError if it is malformed."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except Base64Error as error:
        raise ValueError(f"a secret must be {SECRET_PREFIX} followed by base64") from error
    if not key:
        raise ValueError("a secret must not be empty")
    return Webhook(key)


async def authenticate_webhook(
    request: web.Request, uid: str, agent: CheckedAgent | None, body: bytes
) -> None:
    """Authenticate a request to an agent's webhook. `agent` is None if it does not exist.

    Raises Unauthorized, NotFound, and NotAllowed.
    """
    services, given = get_services(request), get_bearer_token(request)
    if agent is not None and await has_token(services, agent, given):
        return
    is_signed = SIGNATURE in request.headers or TIMESTAMP in request.headers
    fault = (
        await _find_signature_fault(request, services, agent, body)
        if is_signed
        else ACCEPTED_CREDENTIALS
    )
    if not fault:
        return
    try:
        caller = await services.authorizer.get_caller(request)
    except Unauthorized:
        if given.startswith("mr_"):
            raise
        raise Unauthorized(fault) from None
    if caller is LOCAL_CALLER and agent is not None and agent.is_guarded:
        raise Unauthorized(fault)
    caller.check("publish", uid)


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


async def _find_signature_fault(
    request: web.Request, services: Services, agent: CheckedAgent | None, body: bytes
) -> str:
    """Return the rule that the signature violates, or ""."""
    references = agent.secrets if agent is not None else ()
    webhooks = [webhook for one in references for webhook in await _load_secrets(services, one)]
    try:
        verify_signature(request.headers, body, webhooks)
    except BadSignature as error:
        return str(error)
    return ""


async def _load_secrets(services: Services, reference: str) -> list[Webhook]:
    """Resolve a reference to its whitespace-separated secrets. Logs and skips unusable ones."""
    found: list[Webhook] = []
    try:
        for secret in (await services.secrets.resolve(reference)).split():
            found.append(parse_secret(secret))
    except (LookupError, ValueError) as error:
        log.warning("webhook_secret_unusable", reference=reference, reason=str(error))
    return found
