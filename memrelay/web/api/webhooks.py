"""Webhooks: a POST delivers its body to one agent, under Memrelay's path or Kilroy's path.

Kilroy is the platform whose webhook URLs Memrelay accepts (contracts/kilroy.md, A5).
"""

import time

from aiohttp import hdrs, web

from memrelay.bus.streams.entry import NewEntry
from memrelay.pipelines.check import CheckedAgent
from memrelay.web.api.answers import json_response
from memrelay.web.api.directory import Served
from memrelay.web.api.messages import append_entry, parse_message_id
from memrelay.web.auth.access import authenticates_itself
from memrelay.web.auth.webhook_auth import authenticate_webhook, has_token
from memrelay.web.openapi.route_docs import (
    MESSAGE_ID_HEADERS,
    MESSAGE_RESPONSES,
    MESSAGE_SCHEMAS,
    WAIT_QUERY,
    documented,
)
from memrelay.web.server.connection_limits import claim_connection
from memrelay.web.server.errors import NotFound, Unauthorized
from memrelay.web.server.request_body import accept_webhook_body, read_body
from memrelay.web.services import Services, get_services
from memrelay.web.webhooks.body import read_webhook_body
from memrelay.web.webhooks.envelopes import Webhook, find_body_limit, make_envelopes

routes = web.RouteTableDef()
# Occurs in no alias and no message id, so that joined pairs of them are unique.
ID_SEPARATOR = "\x1f"
DOCUMENTATION = documented(
    MESSAGE_RESPONSES,
    body="Any JSON, a form, or text.",
    query=WAIT_QUERY,
    headers=MESSAGE_ID_HEADERS,
    needs_body=False,
    schemas=MESSAGE_SCHEMAS,
)


@routes.post("/webhooks/{uid}/{alias}")
@DOCUMENTATION
@authenticates_itself
async def receive(request: web.Request) -> web.Response:
    """Deliver the body to an agent.

    The caller needs the agent's token, a signature with one of its secrets, or a key with the
    scope publish.
    """
    services = get_services(request)
    uid, alias = request.match_info["uid"], request.match_info["alias"]
    agent = await _find_agent(services, uid, alias)
    if agent is not None:
        accept_webhook_body(request, find_body_limit(agent, services.options))
    body = await authenticate_webhook(request, uid, agent)
    served = await services.directory.find(uid)
    return await _deliver(request, body, served, served.get_agent(alias))


async def _find_agent(services: Services, uid: str, alias: str) -> CheckedAgent | None:
    """Return the agent, or None. Only authenticated callers learn that it does not exist."""
    try:
        return (await services.directory.find(uid)).agents.get(alias)
    except NotFound:
        return None


@routes.post("/api/v1/pd/webhook/{token}/{alias}/{trigger}")
@DOCUMENTATION
@authenticates_itself
async def receive_as_kilroy(request: web.Request) -> web.Response:
    """Deliver the body to an agent by Kilroy's path.

    The path holds the agent's token and alias. The trigger is the agent's block. If several
    pipelines have such an agent, the one that was deployed last receives the message.
    """
    services, path = get_services(request), request.match_info
    alias, token = path["alias"], path["token"]
    directory = services.directory
    matches = await _match_agents(services, await directory.list_pipelines(), alias, token)
    if not matches:
        pipelines = await directory.list_pipelines(refresh=True)
        matches = await _match_agents(services, pipelines, alias, token)
    if not matches:
        raise Unauthorized(
            f"no agent {alias[:100]!r} has this token; an agent's token is the value that its "
            "wf_webhook_token refers to"
        )
    served, agent = _choose_receiver(matches, path["trigger"])
    claim_connection(request, f"webhook {served.deployed.uid}/{alias}")
    accept_webhook_body(request, find_body_limit(agent, services.options))
    return await _deliver(request, await read_body(request), served, agent, is_kilroy=True)


async def _deliver(
    request: web.Request,
    raw: bytes,
    served: Served,
    agent: CheckedAgent,
    *,
    is_kilroy: bool = False,
) -> web.Response:
    alias, uid, message_id = agent.agent.alias, served.deployed.uid, parse_message_id(request)
    if not agent.takes_messages:
        raise NotFound(
            f"agent {alias} of pipeline {served.deployed.name} accepts no messages; it only "
            "displays a swarm"
        )
    services = get_services(request)
    body = read_webhook_body(raw, request.headers.get(hdrs.CONTENT_TYPE, ""), services.options)
    webhook = Webhook(body, time.time_ns() // 1_000_000, is_kilroy=is_kilroy)
    envelopes = make_envelopes(agent, webhook, services.options)
    producer_id = f"{alias}{ID_SEPARATOR}{message_id}" if message_id else ""
    if len(envelopes) == 1:
        entry = NewEntry(uid, envelopes[0], agent=alias, producer_id=producer_id)
        return await append_entry(request, entry, message_id)
    appended = await services.requester.ingress.append_all(
        [
            NewEntry(uid, data, agent=alias, producer_id=producer_id and f"{producer_id}#{number}")
            for number, data in enumerate(envelopes, 1)
        ]
    )
    return json_response({"message_id": message_id or appended}, 202)


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
