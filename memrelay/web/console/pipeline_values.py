"""The template values of a pipeline's chat, log and examples."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from aiohttp import web

from memrelay.bus.streams.log import read_log_backward
from memrelay.pipelines.commands import list_commands
from memrelay.web.api.directory import Served
from memrelay.web.console.agents import AgentView, list_agents, list_input_swarms
from memrelay.web.console.examples import (
    GREETING,
    TOOL_CALL,
    SwarmAddress,
    make_examples,
    redis_cli,
)
from memrelay.web.console.format import LogRow, to_log_row
from memrelay.web.server.errors import NotFound
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services
from memrelay.web.trace.dead_letter_rows import read_rows

MAX_LOG_ROWS = 50
MAX_CHAT_WAIT_S = 30.0


def digest_values(request: web.Request, versions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the digest of the shown versions, and whether the open page shows older ones."""
    digest = sha256(repr(versions).encode()).hexdigest()[:16]
    return {"digest": digest, "is_old": request.query.get("seen", digest) != digest}


async def pipeline_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a pipeline's chat and examples."""
    agents, options = list_agents(served.bundle), get_services(request).options
    values, commands = await log_values(request, served), list_commands(served.bundle)
    address = SwarmAddress(
        find_public_url(request),
        redis_cli(options.bus_name, options.bus_password_file),
        served.deployed.uid,
        values["swarm"],
        served.bundle.swarm_owner(values["swarm"]),
    )
    return values | {
        "uid": served.deployed.uid,
        "name": served.deployed.name,
        "description": served.bundle.description,
        "agents": agents,
        "swarms": list_input_swarms(agents),
        "commands": commands,
        "address": address,
        "sender": _default_sender(agents, values["swarm"]),
        "examples": make_examples(address, commands, _example_text(agents, values["swarm"])),
        "wait_s": min(MAX_CHAT_WAIT_S, options.max_wait_s),
    }


def _example_text(agents: Sequence[AgentView], swarm: str) -> str:
    """Return a message that the agents of a swarm without commands answer."""
    takes_tool_calls = any(
        agent.block == "memory_tool" and agent.listens_on == swarm for agent in agents
    )
    return TOOL_CALL if takes_tool_calls else GREETING


def _default_sender(agents: Sequence[AgentView], swarm: str) -> str:
    """Return the name of the swarm's chat agent, otherwise `User`."""
    for agent in agents:
        if agent.block == "chat_agent" and agent.publishes_on == swarm:
            return agent.name
    return "User"


async def log_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a swarm's log, newest first.

    The default is the first swarm with listeners. Raises NotFound.
    """
    swarm = request.query.get("swarm", "")
    if not swarm:
        swarm = next(iter(list_input_swarms(list_agents(served.bundle))), "")
    if swarm and swarm not in served.swarms:
        raise NotFound(
            f"Pipeline {served.deployed.name} has no swarm {swarm[:100]!r}; it has "
            f"{', '.join(served.swarms)}."
        )
    line, owner = get_services(request).line, served.bundle.swarm_owner(swarm)
    entries = await read_log_backward(line, owner, swarm, limit=MAX_LOG_ROWS) if swarm else []
    uid = served.deployed.uid
    rows = [to_log_row(entry, uid) for entry in entries]
    rows += await _read_failed(request, uid, swarm)
    rows.sort(key=lambda row: row.published_at_ms, reverse=True)
    return {
        "uid": uid,
        "swarm": swarm,
        "is_public": swarm in served.bundle.public,
        "log": rows[:MAX_LOG_ROWS],
        "max_log_rows": MAX_LOG_ROWS,
    }


async def _read_failed(request: web.Request, uid: str, swarm: str) -> list[LogRow]:
    """Return the newest messages of a swarm that failed, at the times of their arrival."""
    letters = get_services(request).catalog.dead_letters
    found = await letters.latest(uid, swarm, limit=MAX_LOG_ROWS) if swarm else []
    return [
        LogRow(
            one.arrived_at_ms,
            one.sender,
            one.text,
            one.hidden,
            one.entry,
            one.reason,
            one.ident,
        )
        for one in await read_rows(letters, found)
    ]
