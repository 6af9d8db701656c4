"""Webhooks: a POST that is handed to one agent, under our own path and under Kilroy's (contracts/kilroy.md A5)."""
import hmac
import time

from aiohttp import hdrs, web

from bus.entry import NewEntry
from pipelines.check import CheckedAgent
from web.body import to_envelope
from web.directory import Served
from web.errors import Conflict, NotFound, Unauthorised
from web.messages import enter, producer_id
from web.parts import Parts, parts_of
from web.reading import read_body

routes = web.RouteTableDef()
SENDER = "webhook"   # who said what names nobody


@routes.post("/webhooks/{uid}/{alias}")
async def receive(request: web.Request) -> web.Response:
    """Hands the body to an agent. Where the agent has a token, it comes as `Authorization: Bearer TOKEN`."""
    parts, alias = parts_of(request), request.match_info["alias"]
    served = await parts.directory.find(request.match_info["uid"])
    agent = served.agent(alias)
    if agent.token and not _is_token(parts, agent, _bearer(request)):
        raise Unauthorised(f"agent {alias} takes only who sends its token: Authorization: Bearer TOKEN")
    return await _hand_over(request, parts, served, agent)


@routes.post("/api/v1/pd/webhook/{token}/{alias}/{trigger}")
async def receive_as_kilroy(request: web.Request) -> web.Response:
    """The same by alias alone, with the token in the path; the trigger is the agent's block."""
    parts, path = parts_of(request), request.match_info
    alias, token = path["alias"], path["token"]
    meant = (_meant(parts, await parts.directory.all(), alias, token)
             or _meant(parts, await parts.directory.all(anew=True), alias, token))
    if not meant:
        raise Unauthorised(f"no agent {alias[:100]!r} has this token; an agent's token is what its wf_webhook_token refers to")
    if len(meant) > 1:
        uids = ", ".join(served.deployed.uid for served, _ in meant)
        raise Conflict(f"several pipelines have an agent {alias} with this token: {uids}; use /webhooks/UID/{alias}")
    served, agent = meant[0]
    if agent.block.handle is not None and path["trigger"] != agent.block.name:
        raise NotFound(f"agent {alias} has the trigger {agent.block.name!r}, not {path['trigger'][:100]!r}")
    return await _hand_over(request, parts, served, agent)


async def _hand_over(request: web.Request, parts: Parts, served: Served, agent: CheckedAgent) -> web.Response:
    alias, uid, ident = agent.agent.alias, served.deployed.uid, producer_id(request)
    if not agent.takes_messages:
        raise NotFound(f"agent {alias} of pipeline {served.deployed.name} takes no messages: it only shows what is said")
    data = to_envelope(await read_body(request), sender=SENDER, now_ms=time.time_ns() // 1_000_000,
                       bounds=parts.options)
    entry = NewEntry(uid, data, agent=alias, producer_id=f"{alias}/{ident}" if ident else "")
    return await enter(request, entry, ident)


def _meant(parts: Parts, everything: list[Served], alias: str, token: str) -> list[tuple[Served, CheckedAgent]]:
    """The agents of that alias and token."""
    named = [(served, served.agents[alias]) for served in everything if alias in served.agents]
    return [(served, agent) for served, agent in named if agent.token and _is_token(parts, agent, token)]


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_token(parts: Parts, agent: CheckedAgent, given: str) -> bool:
    """Compared in constant time. A reference to nothing fits no token."""
    try:
        expected = parts.secret(agent.token)
    except LookupError:
        return False
    return bool(expected) and hmac.compare_digest(expected.encode(), given.encode(errors="surrogateescape"))
