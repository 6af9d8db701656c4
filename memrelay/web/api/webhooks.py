"""Webhooks: a POST delivers its body to one agent, under Memrelay's path or Kilroy's path.

Kilroy is the platform whose webhook URLs Memrelay accepts (contracts/kilroy.md, A5). An agent with
`wf_webhook_sender` takes the id and the event from where its sender writes them, and answers as
the sender expects.
"""

import asyncio
import hashlib
import time
from functools import wraps
from typing import Any

from aiohttp import hdrs, web
from msgspec.structs import replace

from memrelay.bus.errors import BusError, NoAnswer
from memrelay.bus.streams.entry import LONGEST_ID, NewEntry, is_valid_id
from memrelay.bus.streams.via import Via
from memrelay.guarded_http.rules import HOP_HEADER
from memrelay.logs import get_logger
from memrelay.memory.errors import Refused, ResultTooLarge, StoreBroken, StoreBusy
from memrelay.pipelines.check import CheckedAgent
from memrelay.pipelines.expressions import parse_json_text
from memrelay.web.api.answers import json_response
from memrelay.web.api.directory import Served
from memrelay.web.api.messages import append_entry, parse_message_id
from memrelay.web.auth.access import CALLER, RouteHandler, authenticates_itself
from memrelay.web.auth.webhook_auth import (
    SVIX_ID,
    Authenticated,
    authenticate_webhook,
    has_token,
    is_from_networks,
)
from memrelay.web.openapi.route_docs import (
    MESSAGE_ID_HEADERS,
    MESSAGE_RESPONSES,
    TEXT,
    WAIT_QUERY,
    documented,
)
from memrelay.web.openapi.shapes import AcceptedMessage, SettledMessage
from memrelay.web.server.connection_limits import claim_connection
from memrelay.web.server.errors import NotFound, Problem, Unauthorized
from memrelay.web.server.request_body import accept_webhook_body, read_body
from memrelay.web.services import Services, get_services
from memrelay.web.webhooks import answers
from memrelay.web.webhooks.body import read_webhook_body
from memrelay.web.webhooks.envelopes import Webhook, find_body_limit, make_envelopes
from memrelay.web.webhooks.handshakes import answer_signed, answer_unsigned
from memrelay.web.webhooks.request import HookRequest, compile_cached
from memrelay.web.webhooks.requests import APPENDED, NOTE, RequestNote
from memrelay.web.webhooks.sns import SUBSCRIPTIONS

log = get_logger(__name__)
routes = web.RouteTableDef()
PATH = "/webhooks/{uid}/{alias}"
KILROY_PATH = "/api/v1/pd/webhook/{token}/{alias}/{trigger}"
# Occurs in no alias and no message id, so that joined pairs of them are unique.
ID_SEPARATOR = "\x1f"
XML = "text/xml"
# Senders whose delivery id is the message id as it is.
PLAIN_IDS = ("standard", "token")
DOCUMENTATION = documented(
    MESSAGE_RESPONSES
    | {
        200: "With `wait`: the results. For some senders, the answer that they expect.",
        204: "The sender expects an answer without a body.",
    },
    body="Any JSON, a form, or text.",
    query=WAIT_QUERY,
    headers=MESSAGE_ID_HEADERS,
    needs_body=False,
    schemas={202: AcceptedMessage, 200: SettledMessage | Any},
    other_types=(TEXT, XML),
)
HANDSHAKE = documented(
    {
        200: "The answer to a handshake of the agent's sender.",
        405: "The agent's sender has no such handshake, or it did not pass its check.",
    },
    media_type=TEXT,
)


def listed(handler: RouteHandler) -> RouteHandler:
    """Add the requests of a handler to the list of requests, with their answers."""

    @wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        request[NOTE] = RequestNote(request.method)
        status, reason = 500, "internal error; see the server's log"
        try:
            response = await handler(request)
            status, reason = response.status, ""
            return response
        except Problem as fault:
            status, reason = fault.status, fault.detail
            raise
        except web.HTTPException as fault:
            status, reason = fault.status, fault.reason
            raise
        except web.RequestPayloadError:
            status, reason = 400, "the body cannot be read"
            raise
        except (BusError, StoreBusy, StoreBroken) as fault:
            status, reason = 503, str(fault)
            raise
        except (ConnectionError, asyncio.CancelledError):
            status, reason = 499, "the sender closed the connection before the answer"
            raise
        finally:
            get_services(request).webhook_requests.add(request, status, reason)

    return handle


@routes.post(PATH)
@DOCUMENTATION
@authenticates_itself
@listed
async def receive(request: web.Request) -> web.Response:
    """Deliver the body to an agent.

    The caller needs the agent's token, a signature with one of its secrets, or a key with the
    scope publish.
    """
    services = get_services(request)
    uid, alias = request.match_info["uid"], request.match_info["alias"]
    agent = await _find_agent(request, uid, alias)
    if agent is not None and agent.sender is not None:
        answer = await _shake_hands(request, agent)
        if answer is not None:
            return answer
    if agent is not None:
        accept_webhook_body(request, find_body_limit(agent, services.options))
    authenticated = await authenticate_webhook(request, uid, agent)
    served = await services.directory.find(uid)
    return await _deliver(request, authenticated, served, served.get_agent(alias))


async def _find_agent(request: web.Request, uid: str, alias: str) -> CheckedAgent | None:
    """Return and note the agent, or None. Only authenticated callers learn that it is missing."""
    try:
        served = await get_services(request).directory.find(uid)
    except NotFound:
        return None
    agent = served.agents.get(alias)
    _note_receiver(request, served, agent)
    return agent


def _note_receiver(request: web.Request, served: Served, agent: CheckedAgent | None) -> None:
    note = request[NOTE]
    note.uid, note.bundle, note.agent = served.deployed.uid, served.deployed.hash, agent


@routes.post(KILROY_PATH)
@DOCUMENTATION
@authenticates_itself
@listed
async def receive_as_kilroy(request: web.Request) -> web.Response:
    """Deliver the body to an agent by Kilroy's path.

    The path holds the agent's token and alias. The trigger is the agent's block. If several
    pipelines have such an agent, the one that was deployed last receives the message.
    """
    path = request.match_info
    alias = path["alias"]
    matches = await _find_by_token(request)
    if not matches:
        raise Unauthorized(
            f"no agent {alias[:100]!r} has this token; an agent's token is the value that its "
            "wf_webhook_token refers to"
        )
    request[NOTE].verdict = "token"
    _note_receiver(request, *matches[0])
    served, agent = _choose_receiver(matches, path["trigger"])
    _note_receiver(request, served, agent)
    if agent.networks and not is_from_networks(request, agent):
        raise Unauthorized(
            f"agent {alias[:100]!r} accepts webhooks of its wf_webhook_networks only"
        )
    claim_connection(request, f"webhook {served.deployed.uid}/{alias}")
    if answer := await _shake_hands(request, agent):
        return answer
    accept_webhook_body(request, find_body_limit(agent, get_services(request).options))
    authenticated = Authenticated(await read_body(request))
    return await _deliver(request, authenticated, served, agent, is_kilroy=True)


@routes.get(PATH, allow_head=False)
@HANDSHAKE
@authenticates_itself
@listed
async def verify_url(request: web.Request) -> web.StreamResponse:
    """Answer the handshake with which a sender verifies the URL of a webhook."""
    uid, alias = request.match_info["uid"], request.match_info["alias"]
    agent = await _find_agent(request, uid, alias)
    return await _answer_handshake(request, agent)


@routes.get(KILROY_PATH, allow_head=False)
@HANDSHAKE
@authenticates_itself
@listed
async def verify_kilroy_url(request: web.Request) -> web.StreamResponse:
    """Answer the handshake with which a sender verifies the URL of a webhook, by Kilroy's path."""
    matches = await _find_by_token(request)
    if not matches:
        return await _answer_handshake(request, None)
    request[NOTE].verdict = "token"
    _note_receiver(request, *matches[0])
    return await _answer_handshake(request, matches[0][1])


@routes.head(PATH)
@authenticates_itself
async def probe_url(request: web.Request) -> web.StreamResponse:
    """Answer a request for the head, as `verify_url` does."""
    return await verify_url(request)


@routes.head(KILROY_PATH)
@authenticates_itself
async def probe_kilroy_url(request: web.Request) -> web.StreamResponse:
    """Answer a request for the head, as `verify_kilroy_url` does."""
    return await verify_kilroy_url(request)


@routes.options(PATH)
@HANDSHAKE
@authenticates_itself
async def allow_sender(request: web.Request) -> web.StreamResponse:
    """Allow a sender of CloudEvents to send, as its handshake asks."""
    return await verify_url(request)


@routes.options(KILROY_PATH)
@HANDSHAKE
@authenticates_itself
async def allow_kilroy_sender(request: web.Request) -> web.StreamResponse:
    """Allow a sender of CloudEvents to send, as its handshake asks, by Kilroy's path."""
    return await verify_kilroy_url(request)


async def _answer_handshake(request: web.Request, agent: CheckedAgent | None) -> web.Response:
    """Return the answer to a handshake. Raises HTTPMethodNotAllowed for anything else."""
    answer = None if agent is None else await _shake_hands(request, agent)
    if answer is None:
        note = request[NOTE]
        note.reason = note.reason or f"{request.method} is not a handshake of the agent's sender"
        raise web.HTTPMethodNotAllowed(request.method, [hdrs.METH_POST])
    return answer


async def _shake_hands(request: web.Request, agent: CheckedAgent) -> web.Response | None:
    """Return the answer to a handshake that nobody signs, or None."""
    if agent.sender is None or not agent.sender.handshake:
        return None
    if agent.networks and not is_from_networks(request, agent):
        return None
    token, name, note = "", agent.agent.alias, request[NOTE]
    if agent.verify and request.method == hdrs.METH_GET:
        try:
            token = await get_services(request).secrets.resolve(agent.verify)
        except LookupError as error:
            log.warning("webhook_secret_unusable", reference=agent.verify, reason=str(error))
    answer = answer_unsigned(agent.sender.handshake, request, token)
    if answer is not None:
        note.outcome = "handshake"
    elif agent.sender.handshake == "meta" and request.method == hdrs.METH_GET:
        note.reason = "hub.verify_token is not wf_webhook_verify"
        log.debug("webhook_refused", agent=name, reason=note.reason)
    return answer


async def _deliver(
    request: web.Request,
    authenticated: Authenticated,
    served: Served,
    agent: CheckedAgent,
    *,
    is_kilroy: bool = False,
) -> web.Response:
    alias, uid = agent.agent.alias, served.deployed.uid
    if not agent.takes_messages:
        raise NotFound(
            f"agent {alias} of pipeline {served.deployed.name} accepts no messages; it only "
            "displays a swarm"
        )
    if agent.sender is not None:
        return await _deliver_from_sender(request, authenticated, uid, agent)
    message_id = parse_message_id(request)
    if not message_id and SVIX_ID in request.headers:
        message_id = _shorten_id(request.headers[SVIX_ID])
    request[NOTE].delivery_id = message_id
    services = get_services(request)
    content_type = request.headers.get(hdrs.CONTENT_TYPE, "")
    body = read_webhook_body(authenticated.body, content_type, services.options)
    webhook = Webhook(body, time.time_ns() // 1_000_000, is_kilroy=is_kilroy)
    envelopes = make_envelopes(agent, webhook, services.options)
    producer_id = f"{alias}{ID_SEPARATOR}{message_id}" if message_id else ""
    entries = _make_entries(uid, alias, envelopes, producer_id, _read_hop(request))
    via = _make_via(request, "webhook:kilroy" if is_kilroy else "webhook", authenticated)
    entries = [replace(entry, via=via) for entry in entries]
    if len(entries) == 1:
        return await append_entry(request, entries[0], message_id)
    appended = request[APPENDED] = await services.requester.ingress.append_all(entries)
    return json_response({"message_id": message_id or appended}, 202)


def _read_hop(request: web.Request) -> str:
    """Return the hops of a request of Memrelay itself, which ends a loop; "" for any other."""
    hop = request.headers.get(HOP_HEADER, "")
    return hop if hop.isascii() and hop.isdecimal() and len(hop) < 10 else ""


def _make_entries(
    uid: str, alias: str, envelopes: list[bytes], producer_id: str, hop: str
) -> list[NewEntry]:
    """Return the entries of the messages of one request. Several have ids of their own."""
    if len(envelopes) == 1:
        return [NewEntry(uid, envelopes[0], agent=alias, producer_id=producer_id, hop=hop)]
    return [
        NewEntry(
            uid,
            data,
            agent=alias,
            producer_id=producer_id and f"{producer_id}#{number}",
            hop=hop,
        )
        for number, data in enumerate(envelopes, 1)
    ]


def _make_via(request: web.Request, profile: str, authenticated: Authenticated) -> Via:
    """Return the way in of a webhook, which is part of the origin of what it writes."""
    caller = request.get(CALLER)
    verdict = "verified" if authenticated.verified else "unverified"
    return Via(profile, verdict, key="" if caller is None else caller.key)


async def _deliver_from_sender(
    request: web.Request, authenticated: Authenticated, uid: str, agent: CheckedAgent
) -> web.Response:
    """Deliver a request of a declared sender: its handshake, its event, or its ignored event."""
    sender, alias = agent.sender, agent.agent.alias
    assert sender is not None
    hook, note = HookRequest(request, authenticated.body, sender), request[NOTE]
    note.event = hook.event
    if answer := answer_signed(hook, authenticated.key):
        note.outcome = "handshake"
        return answer
    if sender.handshake == "sns" and hook.event in SUBSCRIPTIONS:
        if authenticated.verified:
            get_services(request).sns.confirm(hook)
        note.outcome = "handshake"
        return web.Response(content_type=TEXT)
    if hook.event in sender.ignore:
        note.outcome = "ignored"
        return answers.ignore(hook)
    delivery_id = note.delivery_id = _shorten_id(hook.delivery_id)
    note.headers = hook.kept_headers
    message_id = delivery_id or parse_message_id(request)
    is_plain = sender.name in PLAIN_IDS or not delivery_id
    parts = (alias, message_id) if is_plain else (alias, sender.name, message_id)
    metadata = {
        "event": hook.event,
        "sender": sender.name,
        "delivery_id": delivery_id,
        "headers": note.headers,
        "verified": authenticated.verified,
    }
    takes_text = agent.is_publisher or agent.args.selector is not None
    webhook = Webhook(
        hook.get_body(authenticated.key),
        time.time_ns() // 1_000_000,
        metadata,
        compile_cached(sender.text) if sender.text and takes_text else None,
    )
    services = get_services(request)
    envelopes = make_envelopes(agent, webhook, services.options)
    producer_id = ID_SEPARATOR.join(parts) if message_id else ""
    entries = _make_entries(uid, alias, envelopes, producer_id, _read_hop(request))
    via = _make_via(request, f"webhook:{sender.name}", authenticated)
    entries = [replace(entry, via=via) for entry in entries]
    if len(entries) > 1:
        appended = request[APPENDED] = await services.requester.ingress.append_all(entries)
    elif "wait" in request.query:
        return await append_entry(request, entries[0], message_id, any_parameters=True)
    elif agent.answer_wait_s:
        return await _answer_with_result(request, entries[0], hook, agent, message_id)
    else:
        appended = request[APPENDED] = await services.requester.ingress.append(entries[0])
    return answers.acknowledge(hook, message_id or appended)


def _shorten_id(ident: str) -> str:
    """Return an id that a producer may use: a digest of one that is too long or not printable."""
    if is_valid_id(ident) and len(ident) <= LONGEST_ID // 2:
        return ident
    return hashlib.sha256(ident.encode(errors="surrogateescape")).hexdigest()


async def _answer_with_result(
    request: web.Request, entry: NewEntry, hook: HookRequest, agent: CheckedAgent, message_id: str
) -> web.Response:
    """Return the first result in the form of the sender, or its usual answer if there is none."""
    try:
        report = await get_services(request).requester.say(entry, agent.answer_wait_s)
    except NoAnswer as fault:
        request[APPENDED] = fault.ident
        return answers.acknowledge(hook, message_id or fault.ident)
    request[APPENDED] = report["id"]
    message_id = message_id or report["id"]
    if not report["results"]:
        return answers.acknowledge(hook, message_id)
    text = report["results"][0]["args"][0].get("text") or ""
    if agent.answer_template is not None:
        try:
            # A template may take a quarter of a second.
            value = parse_json_text(text)
            text = await asyncio.to_thread(agent.answer_template.render, value)
        except (Refused, ResultTooLarge) as fault:
            log.warning("webhook_answer_failed", agent=agent.agent.alias, reason=str(fault))
            return answers.acknowledge(hook, message_id)
    formatted = answers.format_result(hook.sender, text)
    if formatted is not None:
        return formatted
    if agent.answer_template is not None:
        return web.Response(text=text)
    return json_response({"message_id": message_id, "results": report["results"]})


async def _find_by_token(request: web.Request) -> list[tuple[Served, CheckedAgent]]:
    """Return the agents with the alias and the token of Kilroy's path, the latest first."""
    services, path = get_services(request), request.match_info
    alias, token, directory = path["alias"], path["token"], services.directory
    matches = await _match_agents(services, await directory.list_pipelines(), alias, token)
    if not matches:
        pipelines = await directory.list_pipelines(refresh=True)
        matches = await _match_agents(services, pipelines, alias, token)
    return matches


async def _match_agents(
    services: Services, pipelines: list[Served], alias: str, token: str
) -> list[tuple[Served, CheckedAgent]]:
    """Return the agents with this alias and token, the latest deployment first."""
    newest_first = sorted(
        (served for served in pipelines if alias in served.agents),
        key=lambda served: (served.deployed.deployed_at, served.deployed.uid),
        reverse=True,
    )
    named = [(served, served.agents[alias]) for served in newest_first]
    return [match for match in named if await has_token(services, match[1], token)]


def _choose_receiver(
    matches: list[tuple[Served, CheckedAgent]], trigger: str
) -> tuple[Served, CheckedAgent]:
    """Return the first agent with this trigger. A chat has any trigger. Raises NotFound."""
    for served, agent in matches:
        if agent.block.handle is None or agent.block.name == trigger:
            return served, agent
    agent = matches[0][1]
    raise NotFound(
        f"agent {agent.agent.alias} has the trigger {agent.block.name!r}, not {trigger[:100]!r}"
    )
