"""Which agents heard a message that led to nothing, and the conditions that they have."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.api.directory import Served
from memrelay.web.services import get_services
from memrelay.web.trace.messages import Published
from memrelay.web.webhooks.requests import MAX_ROWS, describe_webhooks, list_receivers

# Agents whose webhooks are looked at, and agents that are shown.
MAX_WEBHOOKS, MAX_HEARERS = 50, 20

# The block whose `expression` is a condition.
CONDITION_BLOCK = "json_match"


class Hearer(NamedTuple):
    """An agent that heard a message. `condition` is what the message has to fulfill, "" for none
    that is known. `pattern` is whether it is a pattern of a text.
    """

    name: str
    alias: str
    block: str
    condition: str = ""
    is_pattern: bool = False


def find_hearers(served: Served, messages: Sequence[Published], alias: str) -> list[Hearer]:
    """Return the agents that heard the first message, or the one to which a webhook was sent."""
    if messages:
        first = messages[0]
        agents: Iterable[CheckedAgent] = (
            one
            for one in served.bundle.agents
            if one.calls and one.rec_swarm == first.swarm and accepts(one.accepts, first.sender)
        )
    else:
        agents = (one for one in served.bundle.agents if one.agent.alias == alias)
    return [_describe(one) for one in agents][:MAX_HEARERS]


def _describe(one: CheckedAgent) -> Hearer:
    place = one.agent.name, one.agent.alias, one.block.name
    if one.block.name == CONDITION_BLOCK:
        return Hearer(*place, getattr(one.args, "expression", ""))
    selector = one.args.selector
    return Hearer(*place, selector.pattern.source, True) if selector is not None else Hearer(*place)


async def find_webhook(request: web.Request, served: Served, entry: str) -> dict[str, Any]:
    """Return the request that a webhook got for a message, with its `agent`; {} for none.

    Raises BusError.
    """
    agents = list_receivers(served.agents.values())[:MAX_WEBHOOKS]
    line, uid = get_services(request).line, served.deployed.uid
    for one in await describe_webhooks(line, uid, agents, "", MAX_ROWS):
        for row in one["requests"]:
            if row["message_id"] == entry:
                return {"agent": one["agent"]} | dict(row)
    return {}
