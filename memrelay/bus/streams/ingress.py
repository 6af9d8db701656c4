"""Appends entries to the inputs of pipelines, for every process except the owner."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from memrelay.bus.client.connection import fail
from memrelay.bus.client.primary import DEMOTED, SentinelFinder
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import Word
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusBusy, BusError, BusRefused, BusUnavailable
from memrelay.bus.info import parse_info
from memrelay.bus.keys import input_key
from memrelay.bus.lease.workers import pause_reasons, read_workers
from memrelay.bus.streams.entry import NewEntry

# How long an answer about the size of an input, or about memory, counts as current.
FRESH_S = 0.1
# Share of `maxmemory` above which ingress stops.
MEMORY_SHARE = 0.8
# Nodes of the stream from which the server estimates its size.
SAMPLES = 100
# How long the replicas may take to confirm that they have an entry.
REPLICATION_MS = 100
# Commands in one pipeline, which has to be answered within REPLY_TIMEOUT_S.
MOST_TOGETHER = 1000
# Appends several entries: each argument list has its length in front.
_APPEND_ALL = """
local at, id = 1, ''
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    id = redis.call('XADD', KEYS[1], unpack(ARGV, at + 1, at + count))
    at = at + count + 1
end
return id
"""
_APPENDS = "XADD", "EVAL"
Send = Callable[..., asyncio.Future[Any]]  # takes the words of a command


@dataclass(frozen=True, slots=True)
class IngressLimits:
    """Limits of what waits for the server, and of the backlog in one input. Sizes in bytes."""

    waiting: int = 10_000
    waiting_bytes: int = 64 << 20
    backlog: int = 10_000
    backlog_bytes: int = 128 << 20


class Lookup:
    """Commands about the state of the server, sent in the same write as an append.

    So they cost no round trip. They are sent when the last answers are older than `fresh_s`.
    `take` receives the replies; each may be a BusError.
    """

    __slots__ = ("_asked_at", "_commands", "_fresh_s", "_latest", "_loop", "_take")

    def __init__(
        self,
        commands: Sequence[tuple[Word, ...]],
        fresh_s: float,
        take: Callable[[list[Any]], None],
    ) -> None:
        self._commands, self._fresh_s, self._take = commands, fresh_s, take
        self._loop = asyncio.get_running_loop()
        self._asked_at = float("-inf")
        self._latest: asyncio.Future[list[Any]] | None = None

    def refresh(self, send: Send) -> bool:
        """Send the commands if the last answers are old. Return whether they were sent."""
        if self._loop.time() - self._asked_at <= self._fresh_s:
            return False
        self._asked_at = self._loop.time()
        answers = [send(*words) for words in self._commands]
        self._latest = asyncio.gather(*answers, return_exceptions=True)
        self._latest.add_done_callback(self._receive)
        return True

    async def wait(self) -> None:
        """Wait until the commands under way were answered or have failed."""
        if self._latest is not None and not self._latest.done():
            await asyncio.wait([self._latest])

    def _receive(self, latest: asyncio.Future[list[Any]]) -> None:
        if not latest.cancelled():
            self._take(latest.result())


class ServerMemory:
    """Whether the server's memory leaves room for more messages.

    Messages are refused while it is above MEMORY_SHARE of `maxmemory`, so that workers can still
    write results. A server without a limit, or that refuses INFO, accepts everything.
    """

    def __init__(self) -> None:
        self._used = self._limit = 0
        self._lookup = Lookup([("INFO", "memory")], FRESH_S, self._take)

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be appended."""
        return self._limit > 0 and self._used > MEMORY_SHARE * self._limit

    def refresh(self, send: Send) -> None:
        """Ask the server if its last answer is old."""
        self._lookup.refresh(send)

    async def check(self, send: Send) -> None:
        """Raise BusBusy if the memory is full by a current answer of the server."""
        self._lookup.refresh(send)
        await self._lookup.wait()
        if self.is_full:
            raise BusBusy(
                f"the bus uses {self._used >> 20} of {self._limit >> 20} MiB (maxmemory) and "
                f"accepts new messages below {MEMORY_SHARE:.0%}; retry later, or free memory as "
                "docs/operations.md explains"
            )

    def _take(self, answers: list[Any]) -> None:
        (reply,) = answers
        if isinstance(reply, BusRefused):
            self._limit = 0
        elif not isinstance(reply, BusError):
            fields = parse_info(reply)
            self._used = int(fields.get("used_memory", 0))
            self._limit = int(fields.get("maxmemory", 0))


class Backlog:
    """The number and size of the entries that wait in one input.

    The server is asked in the same write as an append, which costs no round trip. Entries that
    this process appended since then are added; those of other processes are not.
    `is_full` is true if nothing more may be appended.
    """

    __slots__ = (
        "_entries",
        "_lookup",
        "_most_bytes",
        "_most_entries",
        "_since",
        "_size",
        "_uid",
        "is_full",
    )

    def __init__(self, uid: str, limits: IngressLimits) -> None:
        self._uid = uid
        self._most_entries, self._most_bytes = limits.backlog, limits.backlog_bytes
        self.is_full = False
        key = input_key(uid)
        lookups = ("XLEN", key), ("MEMORY", "USAGE", key, "SAMPLES", SAMPLES)
        self._lookup = Lookup(lookups, FRESH_S, self._take)
        self._entries = self._size = 0
        self._since = [0, 0]  # entries and bytes that were appended since the server was asked

    def add(self, send: Send, size: int) -> None:
        """Count an entry that is being sent, and ask the server if its last answer is old."""
        self._entries += 1
        self._size += size
        self._since[0] += 1
        self._since[1] += size
        self.is_full = self._entries >= self._most_entries or self._size >= self._most_bytes
        self._ask(send)

    async def check(self, send: Send) -> None:
        """Raise BusBusy if the backlog is full by a current answer of the server."""
        self._ask(send)
        await self._lookup.wait()
        if not self.is_full:
            return
        waits = f"{self._entries} messages wait"
        rule = f"bus.max_backlog allows {self._most_entries}"
        if self._entries < self._most_entries:
            waits = f"about {self._size} bytes wait"
            rule = f"bus.max_backlog_bytes allows {self._most_bytes}"
        raise BusBusy(
            f"{waits} for the worker of pipeline {self._uid}, and {rule}; retry in a second"
        )

    def _ask(self, send: Send) -> None:
        if self._lookup.refresh(send):
            self._since = [0, 0]

    def _take(self, answers: list[Any]) -> None:
        """Take the answers. An unavailable server leaves the old figures.

        A server that refuses MEMORY USAGE turns the limit on bytes off.
        """
        entries, size = answers
        if not isinstance(entries, BusError):
            self._entries = int(entries) + self._since[0]
        if not isinstance(size, BusError):
            self._size = int(size or 0) + self._since[1]
        elif isinstance(size, BusRefused):
            self._size = 0
        self.is_full = self._entries >= self._most_entries or self._size >= self._most_bytes


class Ingress:
    """Appends entries. Use it as an asynchronous context manager.

    All commands of one tick of the event loop leave in one pipeline, and the server syncs them to
    disk together. Commands that arrive while a pipeline is under way leave in the next one.
    """

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        self._client, self._limits = ReconnectingConnection(address), limits or IngressLimits()
        self._min_replicas = address.min_replicas
        self._call = self._call_all
        if address.sentinels:
            self._finder, self._call = SentinelFinder(address), self._call_primary
        self._waiting = self._waiting_bytes = 0
        self._backlogs: dict[str, Backlog] = {}  # by pipeline
        self._memory: ServerMemory | None = None  # made in the event loop, with the first append
        self._outgoing: list[tuple[tuple[Word, ...], asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await self._client.__aexit__()

    async def append_all(self, entries: Sequence[NewEntry]) -> str:
        """Append entries of one pipeline, all or none, and return the ID of the last one.

        Raises as `append` does.
        """
        if len(entries) == 1:
            return await self.append(entries[0])
        words = [entry.words() for entry in entries]
        # Each command without XADD and the key, after the number of its words.
        arguments = [word for one in words for word in (len(one) - 2, *one[2:])]
        size = sum(len(entry.data) for entry in entries)
        return await self._append(
            entries[0].uid, size, ["EVAL", _APPEND_ALL, 1, words[0][1], *arguments]
        )

    async def append(self, entry: NewEntry) -> str:
        """Append an entry, and return its ID once the server has it, and as many replicas as the
        address requires.

        Raises BusBusy if too much waits, for the server or in the pipeline's input: nothing is
        appended. Raises BusRefused and BusUnavailable: the entry may have been appended, also if
        too few replicas have it, and a producer ID makes a retry safe.
        """
        return await self._append(entry.uid, len(entry.data), entry.words())

    async def _append(self, uid: str, size: int, words: list[Word]) -> str:
        limits = self._limits
        if self._waiting >= limits.waiting or self._waiting_bytes >= limits.waiting_bytes:
            raise BusBusy(
                f"{self._waiting} messages already wait for the server; retry in a second"
            )
        self._waiting += 1
        self._waiting_bytes += size
        try:
            if (backlog := self._backlogs.get(uid)) is None:
                backlog = self._backlogs[uid] = Backlog(uid, limits)
            memory = self._memory = self._memory or ServerMemory()
            if backlog.is_full:
                await backlog.check(self._send)
            if memory.is_full:
                await memory.check(self._send)
            appended = self._send(*words)
            backlog.add(self._send, size)
            memory.refresh(self._send)
            ident: bytes = await appended
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size
        return ident.decode()

    async def publish(self, channel: str, payload: bytes) -> int:
        """Publish a message, and return how many clients received it.

        Raises BusUnavailable and BusRefused.
        """
        return int(await self._send("PUBLISH", channel, payload))

    async def listeners(self, channel: str) -> int:
        """Return how many clients listen on a channel. Raises BusUnavailable and BusRefused."""
        reply = await self._send("PUBSUB", "NUMSUB", channel)
        return int(reply[1])

    async def read_pause(self, uid: str) -> str:
        """Return why the worker of a pipeline has paused it, "" if it has not.

        Raises BusUnavailable and BusRefused.
        """
        return pause_reasons(await read_workers(self._client)).get(uid, "")

    def _send(self, *words: Word) -> asyncio.Future[Any]:
        """Send a command in the next pipeline."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._outgoing.append((words, future))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_outgoing())
        return future

    async def _send_outgoing(self) -> None:
        while self._outgoing:
            batch, self._outgoing = self._outgoing[:MOST_TOGETHER], self._outgoing[MOST_TOGETHER:]
            replies: list[Any] = [BusUnavailable("the client was closed")] * len(batch)
            try:
                replies = await self._call([words for words, _ in batch])
            except BusError as error:
                replies = [error] * len(batch)
            finally:
                for (_, future), reply in zip(batch, replies, strict=True):
                    _settle(future, reply)

    async def _call_primary(self, commands: list[tuple[Word, ...]]) -> list[Any]:
        """Return the replies of the primary.

        If this process was paused, it may have missed a failover, so it asks first. Raises
        BusError.
        """
        replies = await self._call_all(commands)
        primary = self._finder.known.primary
        await self._finder.confirm()
        if primary is not None and not self._finder.is_current(primary.server):
            raise BusUnavailable(DEMOTED)
        return replies

    async def _call_all(self, commands: list[tuple[Word, ...]]) -> list[Any]:
        """Return the replies. An append that too few replicas have has an error."""
        wanted = self._min_replicas
        if not wanted or not any(words[0] in _APPENDS for words in commands):
            return await self._client.call_all(commands, keep_refusals=True)
        wait = "WAIT", wanted, REPLICATION_MS
        *replies, count = await self._client.call_all([*commands, wait], keep_refusals=True)
        if not isinstance(count, BusError) and count >= wanted:
            return replies
        reason = count if isinstance(count, BusError) else f"{count} of {wanted} replicas have it"
        error = BusUnavailable(
            f"the message may be lost in a failover (bus.min_replicas): {reason}; repeat it under "
            "the same id"
        )
        return [
            error if words[0] in _APPENDS and not isinstance(reply, BusError) else reply
            for words, reply in zip(commands, replies, strict=True)
        ]


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if isinstance(reply, BusError):
        fail(future, reply)
    elif not future.done():
        future.set_result(reply)
