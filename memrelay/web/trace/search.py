"""Searches the messages of a pipeline: its logs, its waiting inputs and its dead letters.

The sources are read backward and merged, the newest message first, until a page is full or enough
was read. A cursor continues there.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import input_key
from memrelay.bus.streams.log import LARGEST, parse_cursor, read_log_backward
from memrelay.memory.control.dead_letters import DeadLetters
from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.pipelines.checked import CheckedBundle
from memrelay.web.api.directory import Served
from memrelay.web.services import get_services
from memrelay.web.trace.dead_letter_rows import read_rows
from memrelay.web.trace.messages import (
    SEND_BLOCKS,
    find_send_fault,
    parse_entry_id,
    read_message,
)

State = Literal["processed", "waiting", "parked", "failed", "send_failed"]
STATES: tuple[str, ...] = get_args(State)
# Characters of a search and of a shown message, and words that are looked for.
MAX_QUERY, MAX_SHOWN, MAX_WORDS = 500, 300, 20
# Messages that one request reads, and seconds after which it reads no more.
MAX_LOOKED, MAX_S = 2000, 1.5
# Swarms that are searched.
MAX_SWARMS = 50
# Messages of a source that are read at once, and bytes of the data of a waiting input.
CHUNK, MAX_INPUT_BYTES = 50, 1 << 20
CURSOR = re.compile(r"([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,3})")


class Place(NamedTuple):
    """The place of a message: Unix ms, a number within it, and the number of its source."""

    ms: int
    number: int
    source: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Return a key that sorts the newest first."""
        return -self.ms, -self.number, self.source

    def __str__(self) -> str:
        """Return the place as a cursor."""
        return f"{self.ms}-{self.number}-{self.source}"


def parse_place(cursor: str) -> Place | None:
    """Return the place in a cursor; None if it is no cursor."""
    match = CURSOR.fullmatch(cursor)
    place = Place(*map(int, match.groups())) if match else None
    return place if place is not None and max(place) <= LARGEST else None


class Hit(NamedTuple):
    """A message that was found. `agent` is the alias of its publisher, "" for none.

    `entry` is the message whose trace has it, "" for one of another pipeline. A failed message
    has its `reason` and the id of its dead letter in `letter`. One that reports a failed request
    has the state `send_failed` and the `reason`. `took_ms` is the time from the arrival of that
    message until this one was published, None if it is not known.
    """

    at_ms: int
    state: State
    entry: str
    mid: str
    swarm: str
    sender: str
    text: str
    agent: str = ""
    reason: str = ""
    letter: str = ""
    took_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions. All words of `text` must occur, without regard to case.

    `agent` is an alias, the name of an agent, or another sender. `since` and `until` are Unix ms;
    `until` is excluded. `took_ms` is the least time from the arrival.
    """

    text: str = ""
    agent: str = ""
    state: str = ""
    swarm: str = ""
    since_ms: int = 0
    until_ms: int = LAST_MS
    took_ms: int = 0

    @property
    def words(self) -> list[str]:
        """Return the words that must occur."""
        return self.text.split()[:MAX_WORDS]


class SearchPage(NamedTuple):
    """A part of the hits, the newest first. `looked` is the number of messages that were read, and
    `oldest_ms` the time of the last one. `cursor` continues, None at the end.
    """

    hits: list[Hit]
    looked: int
    oldest_ms: int | None
    cursor: str | None


# Yields the messages of a source before a place, the newest first.
Messages = AsyncGenerator[tuple[Place, Hit], None]
Read = Callable[[Place], Messages]


async def search_messages(
    request: web.Request,
    served: Served,
    query: Query,
    after: Place | None,
    limit: int,
    *,
    parked: frozenset[str] = frozenset(),
) -> SearchPage:
    """Return the messages that match a query. `parked` are the entries with a message that waits
    because of `wf_flow`.

    Raises BusUnavailable, BusRefused and StoreBusy.
    """
    start = Place(query.until_ms, 0, -1)
    if after is not None and after.order > start.order:
        start = after
    services = get_services(request)
    sources = _list_sources(services.line, services.catalog.dead_letters, served, query)
    matches = _Matcher(served.bundle, query, parked)
    clock = asyncio.get_running_loop().time
    until_s, hits, looked = clock() + MAX_S, list[Hit](), 0
    last: Place | None = None
    async with aclosing(_merge(sources, start)) as merged:
        async for place, hit in merged:
            if place.ms < query.since_ms:
                break
            if len(hits) == limit or looked >= MAX_LOOKED or clock() > until_s:
                return SearchPage(hits, looked, last.ms if last else None, str(last or start))
            looked, last = looked + 1, place
            found = matches(hit)
            if found is not None:
                hits.append(found)
    return SearchPage(hits, looked, last.ms if last else None, None)


async def _merge(sources: Sequence[Read], start: Place) -> Messages:
    """Yield the messages of all sources, the newest first."""
    readers = [read(start) for read in sources if start.ms > 0]
    heads = await asyncio.gather(*(anext(reader, None) for reader in readers))
    waiting = {reader: head for reader, head in zip(readers, heads, strict=True) if head}
    try:
        while waiting:
            reader = min(waiting, key=lambda one: waiting[one][0].order)
            yield waiting[reader]
            following = await anext(reader, None)
            if following is None:
                del waiting[reader]
            else:
                waiting[reader] = following
    finally:
        for reader in readers:
            await reader.aclose()


def _list_sources(
    line: ReconnectingConnection, letters: DeadLetters, served: Served, query: Query
) -> list[Read]:
    """Return the sources that can have a message of the query's state."""
    uid, sources = served.deployed.uid, list[Read]()
    if query.state in ("", "waiting"):
        sources.append(_Inputs(line, uid, 0).read)
    if query.state in ("", "failed"):
        sources.append(_Failed(letters, uid, 1).read)
    if query.state in ("", "processed", "parked", "send_failed"):
        wanted = [name for name in served.swarms if query.swarm in ("", name)]
        sources += [
            _Log(line, served.bundle.swarm_owner(swarm), swarm, uid, number).read
            for number, swarm in enumerate(wanted[:MAX_SWARMS], 2)
        ]
    return sources


def _before(start: Place, source: int) -> str:
    """Return the ID of a stream's entry before which a source continues."""
    # A source after that of the cursor has not shown an entry with the same ID.
    number = start.number + (source > start.source >= 0)
    return f"{start.ms}-{number}"


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of a swarm."""

    line: ReconnectingConnection
    owner: str
    swarm: str
    uid: str
    source: int

    async def read(self, start: Place) -> Messages:
        before, page = _before(start, self.source), [True]
        while page:
            found = await read_log_backward(
                self.line, self.owner, self.swarm, before=before, limit=CHUNK
            )
            for one in found:
                ms, number = one.place
                sender, text = read_message(one.data)
                owner, _, _ = one.mid.rpartition("/")
                entry = parse_entry_id(one.mid) if owner in ("", self.uid) else ""
                took_ms = max(0, ms - parse_cursor(entry)[0]) if entry else None
                place = one.mid, self.swarm, sender, text
                hit = Hit(ms, "processed", entry, *place, took_ms=took_ms)
                yield Place(ms, number, self.source), hit
            page = [True] if found else []
            before = found[-1].cursor if found else before


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The messages that have not run yet. Calls of operations are left out."""

    line: ReconnectingConnection
    uid: str
    source: int

    async def read(self, start: Place) -> Messages:
        before, count = _before(start, self.source), CHUNK
        while count == CHUNK:
            entries: Any = await self.line.call(
                "XREVRANGE", input_key(self.uid), f"({before}", "-", "COUNT", CHUNK
            )
            for ident, words in entries:
                before, fields = ident.decode(), dict(zip(words[::2], words[1::2], strict=True))
                if b"op" in fields:
                    continue
                ms, number = parse_cursor(before)
                sender, text = read_message(fields.get(b"data", b"")[:MAX_INPUT_BYTES])
                swarm = fields.get(b"swarm", b"").decode(errors="replace")
                agent = fields.get(b"agent", b"").decode(errors="replace")
                hit = Hit(ms, "waiting", before, before, swarm, sender, text, agent)
                yield Place(ms, number, self.source), hit
            count = len(entries)


@dataclass(frozen=True, slots=True)
class _Failed:
    """The dead letters, at the times of their last failures."""

    letters: DeadLetters
    uid: str
    source: int

    async def read(self, start: Place) -> Messages:
        number = start.number + (self.source > start.source >= 0)
        place, count = (start.ms, number), CHUNK
        while count == CHUNK:
            found = await self.letters.before(self.uid, *place, limit=CHUNK)
            rows = await read_rows(self.letters, found)
            for one, row in zip(found, rows, strict=True):
                place = one.failed_at, one.place
                agent = row.agent or _find_agent(one.error)
                hit = Hit(
                    *(one.failed_at, "failed", row.entry, row.ident, row.swarm, row.sender),
                    *(row.text, agent, row.reason, row.ident),
                )
                yield Place(*place, self.source), hit
            count = len(found)


def _find_agent(error: str) -> str:
    """Return the alias of the agent at which a message failed, "" for none (worker/errors.py)."""
    return error.rpartition("(agent ")[2].partition(", block ")[0] if "(agent " in error else ""


class _Matcher:
    """Decides whether a message matches, and completes it with its agent and state."""

    def __init__(self, bundle: CheckedBundle, query: Query, parked: frozenset[str]) -> None:
        self._query, self._parked = query, parked
        self._words = [word.casefold() for word in query.words]
        self._senders = {one.agent.alias for one in bundle.agents if one.block.name in SEND_BLOCKS}
        # By swarm and name: the alias of the agent that publishes there.
        self._aliases = {
            (one.send_swarm, one.agent.name): one.agent.alias for one in reversed(bundle.agents)
        }
        wanted = query.agent.casefold()
        self._names = {wanted} | {
            name.casefold()
            for one in bundle.agents
            for name in (one.agent.alias, one.agent.name)
            if wanted in (one.agent.alias.casefold(), one.agent.name.casefold())
        }

    def __call__(self, hit: Hit) -> Hit | None:
        """Return the message as it is shown, None if it does not match."""
        query = self._query
        agent = hit.agent or self._aliases.get((hit.swarm, hit.sender), "")
        state: State = (
            "parked" if hit.state == "processed" and hit.entry in self._parked else hit.state
        )
        reason = hit.reason
        if state == "processed" and agent in self._senders:
            reason = find_send_fault(hit.text)
            state = "send_failed" if reason else state
        if query.took_ms and (hit.took_ms is None or hit.took_ms < query.took_ms):
            return None
        if query.state not in ("", state) or query.swarm not in ("", hit.swarm):
            return None
        if query.agent and self._names.isdisjoint((agent.casefold(), hit.sender.casefold())):
            return None
        text = hit.text.casefold() if self._words else ""
        if not all(word in text for word in self._words):
            return None
        return hit._replace(agent=agent, state=state, reason=reason)
