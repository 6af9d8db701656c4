"""Webhooks: a POST that is handed to one agent, under our own path and under Kilroy's
(contracts/kilroy.md A5)."""

import time

from aiohttp import web

from memrelay.bus.streams.entry import NewEntry
from memrelay.pipelines.check import CheckedAgent
from memrelay.web.api.directory import Served
from memrelay.web.api.messages import enter, producer_id
from memrelay.web.auth.access import guards_itself
from memrelay.web.auth.webhook_auth import admit, is_token
from memrelay.web.openapi.route_docs import ENTERED, GIVEN, NAMED_BY, WAITED, described
from memrelay.web.server.errors import Conflict, NotFound, Unauthorized
from memrelay.web.server.request_body import read_body, to_envelope
from memrelay.web.server.services import Services, services_of

routes = web.RouteTableDef()
SENDER = "webhook"  # who said what names nobody
APART = "\x1f"  # stands in no alias and in no id, so that no two pairs of them look the same


@routes.post("/webhooks/{uid}/{alias}")
@described(ENTERED, body="any JSON, or text", query=WAITED, headers=NAMED_BY, gives=GIVEN)
@guards_itself
async def receive(request: web.Request) -> web.Response:
    """Hands the body to an agent, from who has its token, a signature by its secret, or a key with
    `publish`."""
    parts, uid, alias = services_of(request), request.match_info["uid"], request.match_info["alias"]
    body = await read_body(request)
    await admit(request, uid, await _agent(parts, uid, alias), body)
    served = await parts.directory.find(uid)
    return await _hand_over(request, body, served, served.agent(alias))


async def _agent(parts: Services, uid: str, alias: str) -> CheckedAgent | None:
    """None where there is no such agent: only who may know of the pipeline is told."""
    try:
        return (await parts.directory.find(uid)).agents.get(alias)
    except NotFound:
        return None


@routes.post("/api/v1/pd/webhook/{token}/{alias}/{trigger}")
@described(
    ENTERED | {409: "several pipelines have such an agent"},
    body="any JSON, or text",
    query=WAITED,
    headers=NAMED_BY,
    gives=GIVEN,
)
@guards_itself
async def receive_as_kilroy(request: web.Request) -> web.Response:
    """The same by alias alone, with the token in the path; the trigger is the agent's block."""
    parts, path = services_of(request), request.match_info
    alias, token = path["alias"], path["token"]
    meant = _meant(parts, await parts.directory.all(), alias, token) or _meant(
        parts, await parts.directory.all(anew=True), alias, token
    )
    if not meant:
        raise Unauthorized(
            f"no agent {alias[:100]!r} has this token; an agent's token is what its wf_webhook_token refers to"
        )
    if len(meant) > 1:
        uids = ", ".join(served.deployed.uid for served, _ in meant)
        raise Conflict(
            f"several pipelines have an agent {alias} with this token: {uids}; use /webhooks/UID/{alias}"
        )
    served, agent = meant[0]
    if agent.block.handle is not None and path["trigger"] != agent.block.name:
        raise NotFound(
            f"agent {alias} has the trigger {agent.block.name!r}, not {path['trigger'][:100]!r}"
        )
    return await _hand_over(request, await read_body(request), served, agent)


async def _hand_over(
    request: web.Request, body: bytes, served: Served, agent: CheckedAgent
) -> web.Response:
    alias, uid, ident = agent.agent.alias, served.deployed.uid, producer_id(request)
    if not agent.takes_messages:
        raise NotFound(
            f"agent {alias} of pipeline {served.deployed.name} takes no messages: it only shows what is said"
        )
    data = to_envelope(
        body, sender=SENDER, now_ms=time.time_ns() // 1_000_000, bounds=services_of(request).options
    )
    entry = NewEntry(uid, data, agent=alias, producer_id=f"{alias}{APART}{ident}" if ident else "")
    return await enter(request, entry, ident)


def _meant(
    parts: Services, everything: list[Served], alias: str, token: str
) -> list[tuple[Served, CheckedAgent]]:
    """The agents of that alias and token."""
    named = [(served, served.agents[alias]) for served in everything if alias in served.agents]
    return [(served, agent) for served, agent in named if is_token(parts, agent, token)]
