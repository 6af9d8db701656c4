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
from ipaddress import ip_address, ip_network
from secrets import token_bytes
from typing import NamedTuple

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from memrelay.logs import get_logger
from memrelay.pipelines.check import CheckedAgent
from memrelay.pipelines.webhook_secrets import (
    KeyForm,
    describe_secret_faults,
    parse_key,
    split_secrets,
)
from memrelay.pipelines.webhook_senders import SENDERS, Sender
from memrelay.web.auth.access import set_caller
from memrelay.web.auth.authorizer import LOCAL_CALLER, get_bearer_token
from memrelay.web.server.connection_limits import claim_connection, reading_unverified
from memrelay.web.server.errors import NotAllowed, NotFound, Problem, Unauthorized
from memrelay.web.server.request_body import read_body
from memrelay.web.services import Services, get_services
from memrelay.web.webhooks.request import HookRequest
from memrelay.web.webhooks.requests import NOTE
from memrelay.web.webhooks.signatures import (
    BadSignature,
    check_head,
    describe_mismatch,
    describe_sender,
    find_signers,
    get_signature_header,
    has_signature,
    verify,
)

log = get_logger(__name__)

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# The same headers as Svix names them.
SVIX_ID, SVIX_TIMESTAMP, SVIX_SIGNATURE = "svix-id", "svix-timestamp", "svix-signature"
STANDARD_HEADERS = (SIGNATURE, TIMESTAMP, SVIX_SIGNATURE, SVIX_TIMESTAMP)
STANDARD = SENDERS["standard"]
# A sender with several secrets sends one signature for each.
MAX_SIGNATURES = 20
# A base64-encoded SHA-256. The library raises unrelated errors for anything else.
SIGNATURE_FORM = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
# The largest difference between a timestamp and this server's clock.
MAX_AGE_S = 300
# Stands in for missing secrets, so that all agents reject a signature in the same way.
UNKNOWN_SECRET = Webhook(token_bytes(32))
NO_MATCH = (
    f"no {SIGNATURE} matches; the secret differs or is not set, or the body was changed after "
    "signing"
)
TOO_OLD = (
    f"{TIMESTAMP} differs from this server's clock by more than {MAX_AGE_S} s; sign the webhook "
    "again before resending it"
)
ACCEPTED_CREDENTIALS = (
    "this webhook accepts the agent's token (Authorization: Bearer TOKEN), a Standard Webhooks "
    "signature or that of the agent's wf_webhook_sender, or a key with the scope publish"
)


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
    if SIGNATURE not in headers and SVIX_SIGNATURE in headers:
        headers = {
            ID: headers.get(SVIX_ID, ""),
            TIMESTAMP: headers.get(SVIX_TIMESTAMP, ""),
            SIGNATURE: headers[SVIX_SIGNATURE],
        }
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


class Authenticated(NamedTuple):
    """The body of an authenticated request, and whether its sender's signature was verified.

    `key` is the secret that made the signature.
    """

    body: bytes
    verified: bool = False
    key: bytes = b""


async def authenticate_webhook(
    request: web.Request, uid: str, agent: CheckedAgent | None
) -> Authenticated:
    """Authenticate a request to an agent's webhook.

    `agent` is None if it does not exist. Raises Unauthorized, NotFound, NotAllowed, and the errors
    of `read_body`.
    """
    services, given, note = get_services(request), get_bearer_token(request), request[NOTE]
    if agent is not None and agent.networks:
        if not is_from_networks(request, agent):
            log.debug("webhook_refused", uid=uid, agent=agent.agent.alias, reason="its network")
            note.reason = "the address is not in wf_webhook_networks"
            raise Unauthorized(ACCEPTED_CREDENTIALS)
        if not (agent.token or agent.secrets):
            note.verdict = "network"
            claim_connection(request, f"webhook {uid}/{agent.agent.alias}")
            return Authenticated(await read_body(request))
    if agent is not None and await has_token(services, agent, given):
        note.verdict = "token"
        claim_connection(request, f"webhook {uid}/{agent.agent.alias}")
        return Authenticated(await read_body(request))
    refusal = await _authorize_by_key(request, uid, agent)
    if refusal is None:
        return Authenticated(await read_body(request))
    scheme = _choose_scheme(request, agent)
    faults: list[str] = []
    if scheme is None:
        if agent is not None and agent.token:
            await _resolve_secrets(request, (agent.token,), faults)
            note.reason = _join_faults(faults)
        raise refusal
    try:
        return await _read_signed_body(request, scheme, uid, agent, faults)
    except BadSignature as error:
        note.verdict, note.reason = "invalid", str(error)
        if agent is not None:
            note.reason = _explain(scheme, agent, str(error), faults)
            alias, reason = agent.agent.alias, note.reason
            log.debug("webhook_refused", uid=uid, agent=alias, reason=reason)
        is_default = refusal.detail == ACCEPTED_CREDENTIALS
        raise Unauthorized(str(error)) if is_default else refusal from None


def _join_faults(faults: Sequence[str]) -> str:
    """Return why secrets of an agent cannot be used, "" for no fault. For operators only."""
    if not faults:
        return ""
    return f"a secret of the webhook cannot be used on the server: {'; '.join(faults)}"


def _explain(scheme: "_Scheme", agent: CheckedAgent, reason: str, faults: Sequence[str]) -> str:
    """Return why a signature was refused, with what only operators may know."""
    accepted = agent.sender or STANDARD
    if faults and scheme.is_accepted:
        return _join_faults(faults)
    if scheme.is_accepted and not agent.secrets and scheme.sender.special != "sns":
        return "the agent has no secret: set wf_webhook_secret to that of the sender"
    if reason in (NO_MATCH, describe_mismatch(scheme.sender)):
        return describe_sender(scheme.sender, accepted)
    return reason


def is_from_networks(request: web.Request, agent: CheckedAgent) -> bool:
    """Return whether a request comes from one of the networks that an agent names."""
    try:
        address = ip_address(request.remote or "")
    except ValueError:
        return False
    return any(address in ip_network(network) for network in agent.networks)


class _Scheme(NamedTuple):
    """How a request is signed, and whether the agent accepts signatures of this kind."""

    sender: Sender
    is_standard: bool
    is_accepted: bool


def _choose_scheme(request: web.Request, agent: CheckedAgent | None) -> _Scheme | None:
    """Return how a request is signed, or None if it has no signature.

    A request that the agent does not accept is checked all the same, with an unknown secret, so
    that its answer does not depend on the agent.
    """
    headers = request.headers
    own = (agent.sender or STANDARD) if agent is not None else None
    if any(name in headers for name in STANDARD_HEADERS):
        return _Scheme(STANDARD, True, own is not None and own.standard)
    if own is not None and has_signature(own, headers):
        return _Scheme(own, False, True)
    if signers := find_signers(headers):
        return _Scheme(signers[0], False, False)
    if own is not None and own.signature is not None and not get_signature_header(own):
        return _Scheme(own, False, True)
    return None


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
    request[NOTE].verdict = "local" if caller is LOCAL_CALLER else "key"
    set_caller(request, caller)
    return None


async def _read_signed_body(
    request: web.Request,
    scheme: _Scheme,
    uid: str,
    agent: CheckedAgent | None,
    faults: list[str],
) -> Authenticated:
    """Return a body with a valid signature. `faults` gets why secrets cannot be used.

    Raises BadSignature and the errors of `read_body`.
    """
    if scheme.is_standard:
        check_signature_headers(request.headers)
    else:
        check_head(scheme.sender, request.headers)
    with reading_unverified(request):
        body = await read_body(request)
    secrets = agent.secrets if scheme.is_accepted and agent is not None else ()
    values = await _resolve_secrets(request, secrets, faults)
    services, key = get_services(request), b""
    if scheme.is_standard:
        verify_signature(request.headers, body, _make_webhooks(values, faults))
    elif scheme.sender.special == "sns":
        await services.sns.verify(HookRequest(request, body, scheme.sender))
    else:
        form = scheme.sender.key_form
        keys = [key for one in values for key in _parse_keys(*one, faults, form)]
        key = verify(HookRequest(request, body, scheme.sender), keys)
    if agent is not None:
        claim_connection(request, f"webhook {uid}/{agent.agent.alias}")
    request[NOTE].verdict = "signed"
    return Authenticated(body, True, key)


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


async def _resolve_secrets(
    request: web.Request, references: Sequence[str], faults: list[str]
) -> list[tuple[str, str]]:
    """Return (reference, value) of secrets. Logs and skips those without a value, as `faults`."""
    found, secrets = [], get_services(request).secrets
    for reference in references:
        try:
            found.append((reference, await secrets.resolve(reference)))
        except LookupError as error:
            _note_fault(reference, str(error.args[0]), faults)
    return found


def _note_fault(reference: str, reason: str, faults: list[str]) -> None:
    log.warning("webhook_secret_unusable", reference=reference, reason=reason)
    faults.append(reason)


def _make_webhooks(values: Sequence[tuple[str, str]], faults: list[str]) -> list[Webhook]:
    """Return the verifiers of all secrets of Standard Webhooks."""
    return [Webhook(key) for one in values for key in _parse_keys(*one, faults)]


def _parse_keys(
    reference: str, value: str, faults: list[str], form: KeyForm = "standard"
) -> list[bytes]:
    """Return the keys of a value. Logs and skips unusable ones, as `faults`."""
    found: list[bytes] = []
    secrets = split_secrets(value, form)
    for secret in secrets:
        with suppress(ValueError):
            found.append(parse_key(secret, form))
    if len(found) < len(secrets) or not found:
        for fault in describe_secret_faults(value, form):
            _note_fault(reference, f"{reference} {fault}", faults)
    return found
