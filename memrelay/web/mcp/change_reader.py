"""Reads the change feeds of a pipeline once for all subscriptions of this process.

It reads after a signal of the worker. A subscription collects the URIs that changed, each once, so
a client that reads slowly costs no memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson

from memrelay.bus.errors import BusError, BusUnavailable
from memrelay.bus.keys import changed_channel
from memrelay.bus.request import BROKEN, BUSY, LEAVING, UNAVAILABLE, NewCall, Requester
from memrelay.bus.streams.channels import Channels
from memrelay.logs import get_logger
from memrelay.memory.engine.feed import ERASED
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.operations import known_operation
from memrelay.web.mcp.resources.uris import ResourceKind, ResourceUri

log = get_logger(__name__)
# The actor of the reads that serve all subscriptions of a pipeline.
ACTOR = "mcp"
PAGE_SIZE = 100
# Before the feeds are read again after a failure.
PAUSE_S = 1.0
# How long to ask whether a store has a feed. A client's handshake waits for the answer.
MAX_ASKING_S = 2.0
# Codes of errors that end.
TEMPORARY = (BUSY, UNAVAILABLE, LEAVING, BROKEN)
Json = dict[str, Any]
# The instance of the toolset `graph`.
GRAPH_INSTANCE = "mcp"
# Changed entries whose memory is looked up. After more of them, every memory counts as changed.
MAX_LOOKED_UP = 20
GRAPH = ResourceUri("graph", "", "")


class Changes(NamedTuple):
    """What changed. `is_gap`: anything may have changed."""

    uris: frozenset[ResourceUri] = frozenset()
    is_list_changed: bool = False
    is_gap: bool = False


class CallOperation(Protocol):
    """Calls a reading operation."""

    async def __call__(self, operation: str, input: Json, store: str = "") -> Any:
        """Return the output. Raises BusError and FeedError."""


FindChanges = Callable[[CallOperation, str, Sequence[Json], set[ResourceUri]], Awaitable[Changes]]


@dataclass(frozen=True, slots=True)
class Source:
    """A feed: its built-in store, "" for the first store, and the operation that reads it."""

    name: str
    store: str
    operation: str
    kinds: frozenset[ResourceKind]
    # Whether the list of resources has some of it.
    has_listed: bool
    # Returns what changed, input a page of the feed and the followed resources.
    find_changes: FindChanges


async def _of_records(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    if any(item["type"] == ERASED for item in items):
        return Changes(is_gap=True)
    kinds: tuple[ResourceKind, ...] = ("record", "history")
    uris = {
        ResourceUri(kind, uid, item["subject"])
        for item in items
        if item["type"].startswith("record.")
        for kind in kinds
    }
    return Changes(frozenset(uris))


async def _of_memories(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    memories = {uri for uri in followed if uri.kind == "memory" and uri.uid == uid}
    is_list_changed = any(item["type"].startswith("memory.") for item in items)
    changed = {
        ResourceUri("memory", uid, item["subject"])
        for item in items
        if item["type"].startswith("memory.")
    }
    guids = {item["subject"] for item in items if item["type"].startswith("record.")}
    is_erased = any(item["type"] == ERASED for item in items)
    if memories and (is_erased or len(guids) > MAX_LOOKED_UP):
        changed |= memories
    elif memories:
        for guid in guids:
            scope = await _find_scope(call, guid, built_in_store(uid, "memories"))
            changed |= memories if scope is None else {ResourceUri("memory", uid, scope)}
    return Changes(frozenset(changed), is_list_changed)


async def _find_scope(call: CallOperation, guid: str, store: str) -> str | None:
    """Return the scope of a record, which may be deleted; None if it is unknown."""
    found = await call("records.list", {"filter": {"guid": {"eq": guid}}, "limit": 1}, store)
    if not found["items"]:
        input = {"filter": {"guid": {"eq": guid}}, "limit": 1, "deleted": True}
        found = await call("records.list", input, store)
    return found["items"][0]["scope"] if found["items"] else None


async def _of_recipes(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    uris = set[ResourceUri]()
    for item in items:
        event, data = item["event"], item["data"]
        if event.startswith("persistentMemory:"):
            uris.add(ResourceUri("recipe", uid, data["id"]))
        elif event.startswith("knowledgeGraph:"):
            instance = data.get("instanceId") or data.get("id")
            uris |= {GRAPH} if instance == GRAPH_INSTANCE else set()
    return Changes(frozenset(uris))


SOURCES = (
    Source("records", "", "changes.list", frozenset({"record", "history"}), True, _of_records),
    Source("memories", "memories", "changes.list", frozenset({"memory"}), True, _of_memories),
    Source(
        "recipes", "recipes", "recipes.changes", frozenset({"recipe", "graph"}), False, _of_recipes
    ),
)


class FeedError(Exception):
    """The pipeline's owner refused to read a feed."""


class Bus(NamedTuple):
    """How to call the owners of pipelines and hear their signals."""

    requester: Requester
    channels: Channels
    call_timeout_s: float


class Subscription:
    """What one client follows, and what changed since it last asked."""

    def __init__(self, uris: Mapping[ResourceUri, str], *, follows_list: bool) -> None:
        """`uris` has each resource with the URI as the client spelled it."""
        self.uris, self.follows_list = dict(uris), follows_list
        self._changed = set[ResourceUri]()
        self._is_list_changed = False
        self._news = asyncio.Event()
        self.is_ended = False

    def add(self, changes: Changes) -> None:
        """Note changes of a pipeline."""
        self._changed |= self.uris.keys() if changes.is_gap else self.uris.keys() & changes.uris
        self._is_list_changed |= self.follows_list and (changes.is_list_changed or changes.is_gap)
        if self._changed or self._is_list_changed:
            self._news.set()

    def end(self) -> None:
        """Let `wait` return from now on."""
        self.is_ended = True
        self._news.set()

    async def wait(self) -> tuple[list[str], bool]:
        """Wait for changes, and return the changed URIs and whether the list changed."""
        await self._news.wait()
        changed = sorted(self.uris[uri] for uri in self._changed if uri in self.uris)
        taken = changed, self._is_list_changed
        self._changed.clear()
        self._is_list_changed = False
        if not self.is_ended:
            self._news.clear()
        return taken


class ChangeReaders:
    """The readers of the pipelines with subscriptions."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._readers: dict[str, _Reader] = {}

    async def has_feed(self, uid: str) -> bool:
        """Return whether the pipeline's first store has a change feed. Raises BusError and
        FeedError.
        """
        bus = self._bus._replace(call_timeout_s=min(self._bus.call_timeout_s, MAX_ASKING_S))
        page = await _call(bus, uid, "changes.list", {"limit": 1}, "")
        return bool(page["enabled"])

    @contextmanager
    def follow(self, uid: str, subscription: Subscription) -> Iterator["_Reader"]:
        """Add changes of a pipeline to the subscription during the block, once `open` returns."""
        reader = self._readers.setdefault(uid, _Reader(self._bus, uid))
        reader.subscriptions.append(subscription)
        try:
            yield reader
        finally:
            reader.subscriptions.remove(subscription)
            reader.forget_ends()
            if not reader.subscriptions:
                reader.close()
                del self._readers[uid]

    def end_all(self) -> bool:
        """End all subscriptions, because the process ends. Return whether there are any."""
        subscriptions = [one for reader in self._readers.values() for one in reader.subscriptions]
        for subscription in subscriptions:
            subscription.end()
        return bool(subscriptions)


class _Reader:
    """Reads the feeds of one pipeline."""

    def __init__(self, bus: Bus, uid: str) -> None:
        self._bus, self._uid = bus, uid
        self.subscriptions: list[Subscription] = []
        # The last change that was read, by the name of the source.
        self._reached: dict[str, int] = {}
        self._in_context = ""
        self._wanted = asyncio.Event()
        self._opening = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._ends: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Read the feeds that the subscriptions need from now on. Raises BusError and FeedError."""
        async with self._opening:
            if self._reading is None:
                channel = changed_channel(self._uid)
                end = await self._bus.channels.listen(channel, self._hear)
                with ExitStack() as undo:
                    undo.callback(end)
                    await self._find_ends()
                    undo.pop_all()
                self._ends.append(end)
                self._reading = asyncio.create_task(self._run())
            else:
                await self._find_ends()

    def close(self) -> None:
        """Stop reading."""
        for end in self._ends:
            end()
        self._ends.clear()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _find_ends(self) -> None:
        """Find the ends of feeds that are not read yet."""
        for source in self._needed_sources():
            if source.name not in self._reached:
                page = await self._call(source.operation, {"limit": 1}, self._store_of(source))
                self._reached[source.name] = page["last"]
        if self._follows_list and not self._in_context:
            self._in_context = await self._read_in_context()

    @property
    def _follows_list(self) -> bool:
        return any(subscription.follows_list for subscription in self.subscriptions)

    def _followed(self) -> set[ResourceUri]:
        return set[ResourceUri]().union(*(one.uris for one in self.subscriptions))

    def forget_ends(self) -> None:
        """Forget the places in feeds that no subscription needs any more."""
        needed = {source.name for source in self._needed_sources()}
        self._reached = {name: n for name, n in self._reached.items() if name in needed}
        if not self._follows_list:
            self._in_context = ""

    def _needed_sources(self) -> list[Source]:
        kinds = {uri.kind for uri in self._followed()}
        return [
            source
            for source in SOURCES
            if kinds & source.kinds or (source.has_listed and self._follows_list)
        ]

    def _store_of(self, source: Source) -> str:
        return built_in_store(self._uid, source.store) if source.store else ""

    async def _call(self, operation: str, input: dict[str, Any], store: str = "") -> Any:
        return await _call(self._bus, self._uid, operation, input, store)

    def _hear(self, payload: bytes | None) -> None:
        # Without a payload, signals may have been lost.
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._read_on()
            except (BusError, FeedError) as error:
                log.warning("feed_paused", pipeline=self._uid, reason=str(error), pause_s=PAUSE_S)
                await asyncio.sleep(PAUSE_S)
                self._wanted.set()

    async def _read_on(self) -> None:
        """Pass on what is new in the feeds."""
        for source in self._needed_sources():
            if source.name in self._reached:
                await self._read_source(source)

    async def _read_source(self, source: Source) -> None:
        call: CallOperation = self._call
        while True:
            after, store = self._reached[source.name], self._store_of(source)
            try:
                input = {"after": after, "limit": PAGE_SIZE}
                page = await self._call(source.operation, input, store)
            except FeedError:
                # The store was replaced by a backup, so its changes are not known.
                page = await self._call(source.operation, {"limit": 1}, store)
                self._add(Changes(is_gap=True))
                self._reached[source.name] = page["last"]
                return
            if page["items"]:
                found = await source.find_changes(call, self._uid, page["items"], self._followed())
                self._add(await self._with_listed(source, found))
            if page.get("oldest", 0) > after + 1:
                self._add(Changes(is_gap=True))
            self._reached[source.name] = page["next"]
            if page["next"] >= page["last"]:
                return

    async def _with_listed(self, source: Source, found: Changes) -> Changes:
        """Return the changes, and whether the records that belong to every context changed."""
        if source.name != "records" or not self._follows_list:
            return found
        before, self._in_context = self._in_context, await self._read_in_context()
        return found._replace(is_list_changed=before != self._in_context)

    async def _read_in_context(self) -> str:
        """Return the list of records that belong to every context, as a text to compare."""
        input = {"filter": {"in_context": {"eq": True}}, "limit": 1000}
        page = await self._call("records.list", input)
        return f"{page['total']} {[record['guid'] for record in page['items']]}"

    def _add(self, changes: Changes) -> None:
        for subscription in self.subscriptions:
            subscription.add(changes)


async def _call(bus: Bus, uid: str, operation: str, input: dict[str, Any], store: str) -> Any:
    """Return the output of a reading operation. Raises BusError and FeedError."""
    checked = known_operation(operation).adapter.validate_python(input)
    data = orjson.dumps(checked)
    call = NewCall(uid, operation, data, mutates=False, store=store, actor=ACTOR)
    answer = await bus.requester.call(call, bus.call_timeout_s)
    if (error := answer.get("error")) is None:
        return answer["output"]
    if error["code"] in TEMPORARY:
        raise BusUnavailable(str(error["detail"]))
    raise FeedError(str(error["detail"]))
