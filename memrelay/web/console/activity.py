"""The diagrams of pipelines, drawn once for each bundle, and what happens in them.

All open pages share one read of the activity of a pipeline, at most once a second.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import orjson
from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.streams.log import RecentEntry, read_recent
from memrelay.memory.control.dead_letters import DeadLetters
from memrelay.memory.validation import parse_number
from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.checked import CheckedBundle
from memrelay.web.api.directory import Served
from memrelay.web.console.agents import AgentView, list_agents
from memrelay.web.console.graph import Edge, Graph, draw_graph
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.services import get_services

# An edge counts as used for this time.
WINDOW_MS = 10_000
# Entries that are read of one log, and logs of one pipeline.
MAX_ENTRIES, MAX_SWARMS = 50, 20
# The newest dead letters in which failing agents are looked for.
MAX_LETTERS = 50
SENDER = re.compile(rb'\{"from":("(?:[^"\\]|\\.)*")')


class SeenMessage(NamedTuple):
    """A message in a log. It is message `number` among those that the input `root` led to."""

    swarm: str
    sender: str
    root: str
    number: int


class UsedEdge(NamedTuple):
    """An edge and the number of messages that passed it."""

    edge: Edge
    messages: int


class Activity(NamedTuple):
    """The edges in use, and the number of recent dead letters by the alias of a failing agent."""

    edges: list[UsedEdge]
    failing: Mapping[str, int]


async def read_activity(
    line: ReconnectingConnection,
    letters: DeadLetters,
    bundle: CheckedBundle,
    agents: Sequence[AgentView],
    graph: Graph,
) -> Activity:
    """Return the activity of a pipeline. Raises BusUnavailable, StoreBusy."""
    swarms = bundle.swarms[:MAX_SWARMS]
    logs = [(bundle.swarm_owner(swarm), swarm) for swarm in swarms]
    recent = await read_recent(line, logs, within_ms=WINDOW_MS, limit=MAX_ENTRIES)
    seen = [
        parse_entry(swarm, entry)
        for swarm, entries in zip(swarms, recent, strict=True)
        for entry in entries
    ]
    errors = await letters.latest_errors(bundle.uid, bundle.hash, MAX_LETTERS)
    return Activity(count_uses(graph.edges, agents, seen), count_failures(agents, errors))


def parse_entry(swarm: str, entry: RecentEntry) -> SeenMessage:
    """Return the message of an entry. The sender is "" if its head has none."""
    match = SENDER.match(entry.head)
    sender = orjson.loads(match[1]) if match else ""
    root, _, place = entry.mid.rpartition(".")
    number = place.partition("~")[0]
    return SeenMessage(swarm, sender, root, parse_number(number, 0))


def count_uses(
    edges: Iterable[Edge], agents: Sequence[AgentView], seen: Sequence[SeenMessage]
) -> list[UsedEdge]:
    """Return the edges that messages passed, with their number."""
    traffic = _Traffic(agents, seen)
    counted = [UsedEdge(edge, traffic.count(edge)) for edge in edges] if seen else []
    return [used for used in counted if used.messages]


class _Traffic:
    """The seen messages, by swarm and sender."""

    def __init__(self, agents: Sequence[AgentView], seen: Iterable[SeenMessage]) -> None:
        self._agents = agents
        self._sent: dict[str, dict[str, list[SeenMessage]]] = defaultdict(dict)
        # By the input, swarm and sender: the number of the last message.
        self._last: dict[tuple[str, str, str], int] = {}
        for one in seen:
            self._sent[one.swarm].setdefault(one.sender, []).append(one)
            key = one.root, one.swarm, one.sender
            self._last[key] = max(self._last.get(key, 0), one.number)

    def count(self, edge: Edge) -> int:
        """Return how many messages passed an edge."""
        by_sender = self._sent.get(edge.swarm, {})
        if edge.source is not None:
            sent = by_sender.get(self._agents[edge.source].name, [])
        else:
            sent = [
                one
                for sender, messages in by_sender.items()
                if self._comes_from_bar(sender, edge)
                for one in messages
            ]
        if edge.target is None:
            return len(sent)
        target = self._agents[edge.target]
        return sum(self._is_taken(target, one) for one in sent)

    def _comes_from_bar(self, sender: str, edge: Edge) -> bool:
        """Return whether the diagram shows messages of a sender on this edge."""
        target = self._agents[edge.target or 0]
        return sender != target.name and accepts(target.accepts, sender)

    def _is_taken(self, agent: AgentView, one: SeenMessage) -> bool:
        """Return whether an agent answered a message, or is one that never answers."""
        if not agent.publishes_on or not agent.is_called:
            return True
        return self._last.get((one.root, agent.publishes_on, agent.name), -1) > one.number


def count_failures(agents: Sequence[AgentView], errors: Iterable[str]) -> dict[str, int]:
    """Return the number of errors by the alias of the agent that they name.

    A reason ends with `(agent ALIAS, block NAME)` (memrelay/worker/errors.py).
    """
    known = {agent.alias for agent in agents}
    found: dict[str, int] = defaultdict(int)
    for error in errors:
        alias, is_named, _ = error.rpartition("(agent ")[2].partition(", block ")
        if is_named and alias in known:
            found[alias] += 1
    return dict(found)


# By the hash of the bundle. A diagram of 1,000 agents takes 50 ms.
GRAPHS = web.AppKey("graphs", dict[str, Graph])
ACTIVITIES = web.AppKey("activities", dict[str, CachedRead[Activity]])
MAX_GRAPHS = 200


class LiveGraph(NamedTuple):
    """The diagram of a pipeline, what happens in it, and whether the pipeline pauses."""

    graph: Graph
    activity: Activity
    is_paused: bool


def draw_cached(request: web.Request, served: Served) -> Graph:
    """Return the diagram of a pipeline."""
    graphs, key = request.config_dict[GRAPHS], served.deployed.hash
    if key not in graphs:
        if len(graphs) >= MAX_GRAPHS:
            graphs.clear()
        graphs[key] = draw_graph(list_agents(served.bundle))
    return graphs[key]


async def read_live(request: web.Request, served: Served, paused: str) -> LiveGraph:
    """Return the diagram of a pipeline with its activity. `paused` is why it pauses, or "".

    Raises BusUnavailable and StoreBusy.
    """
    services, graph = get_services(request), draw_cached(request, served)
    caches, key = request.config_dict[ACTIVITIES], served.deployed.hash
    if key not in caches:
        if len(caches) >= MAX_GRAPHS:
            caches.clear()
        agents = list_agents(served.bundle)
        letters = services.catalog.dead_letters
        read = partial(read_activity, services.line, letters, served.bundle, agents, graph)
        caches[key] = CachedRead(read)
    return LiveGraph(graph, await caches[key].get(), bool(paused))
