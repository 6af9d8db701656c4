"""Appends entries to the inputs of pipelines, for every process except the owner."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from memrelay.bus.client.connection import fail
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import Word
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusBusy, BusError, BusRefused, BusUnavailable
from memrelay.bus.keys import input_key
from memrelay.bus.lease.workers import pauses_of, read_workers
from memrelay.bus.streams.entry import NewEntry

# How long an answer about the size of an input counts as current.
FRESH_S = 0.1
# Nodes of the stream from which the server estimates its size.
SAMPLES = 100
# Commands in one pipeline, which has to be answered within REPLY_TIMEOUT_S.
MOST_TOGETHER = 1000
Send = Callable[..., asyncio.Future[Any]]  # takes the words of a command


@dataclass(frozen=True, slots=True)
class IngressLimits:
    """Limits of what waits for the server, and of the backlog in one input. Sizes in bytes."""

    waiting: int = 10_000
    waiting_bytes: int = 64 << 20
    backlog: int = 10_000
    backlog_bytes: int = 128 << 20


class Backlog:
    """The number and size of the entries that wait in one input.

    The server is asked in the same write as an append, which costs no round trip. Entries that
    this process appended since then are added; those of other processes are not.
    `is_full` is true if nothing more may be appended.
    """

    __slots__ = (
        "_asked_at",
        "_entries",
        "_latest",
        "_lookups",
        "_loop",
        "_most_bytes",
        "_most_entries",
        "_since",
        "_size",
        "_uid",
        "is_full",
    )

    def __init__(self, uid: str, limits: IngressLimits) -> None:
        self._uid, self._loop = uid, asyncio.get_running_loop()
        self._most_entries, self._most_bytes = limits.backlog, limits.backlog_bytes
        self.is_full = False
        key = input_key(uid)
        self._lookups = ("XLEN", key), ("MEMORY", "USAGE", key, "SAMPLES", SAMPLES)
        self._entries = self._size = 0
        self._since = [0, 0]  # entries and bytes that were appended since the server was asked
        self._asked_at = float("-inf")
        self._latest: asyncio.Future[list[Any]] | None = None

    @property
    def reason(self) -> str:
        """Return which limit the backlog has reached."""
        waits = f"{self._entries} messages wait"
        rule = f"bus.max_backlog allows {self._most_entries}"
        if self._entries < self._most_entries:
            waits = f"about {self._size} bytes wait"
            rule = f"bus.max_backlog_bytes allows {self._most_bytes}"
        return f"{waits} for the worker of pipeline {self._uid}, and {rule}; retry in a second"

    def add(self, send: Send, size: int) -> None:
        """Count an entry that is being sent, and ask the server if its last answer is old."""
        self._entries += 1
        self._size += size
        self._since[0] += 1
        self._since[1] += size
        self.is_full = self._entries >= self._most_entries or self._size >= self._most_bytes
        if self._loop.time() - self._asked_at > FRESH_S:
            self._ask(send)

    async def look(self, send: Send) -> None:
        """Wait for a current answer of the server, or until asking has failed."""
        if self._loop.time() - self._asked_at > FRESH_S:
            self._ask(send)
        if self._latest is not None and not self._latest.done():
            await asyncio.wait([self._latest])

    def _ask(self, send: Send) -> None:
        self._asked_at, self._since = self._loop.time(), [0, 0]
        answers = [send(*words) for words in self._lookups]
        self._latest = asyncio.gather(*answers, return_exceptions=True)
        self._latest.add_done_callback(self._take)

    def _take(self, latest: asyncio.Future[list[Any]]) -> None:
        """Take the answers. An unavailable server leaves the old figures.

        A server that refuses MEMORY USAGE turns the limit on bytes off.
        """
        if latest.cancelled():
            return
        entries, size = latest.result()
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
        self._waiting = self._waiting_bytes = 0
        self._backlogs: dict[str, Backlog] = {}  # by pipeline
        self._outgoing: list[tuple[tuple[Word, ...], asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await self._client.__aexit__()

    async def append(self, entry: NewEntry) -> str:
        """Append an entry, and return its ID once the server has it.

        Raises BusBusy if too much waits, for the server or in the pipeline's input: nothing is
        appended. Raises BusRefused and BusUnavailable: the entry may have been appended, and a
        producer ID makes a retry safe.
        """
        size, limits = len(entry.data), self._limits
        if self._waiting >= limits.waiting or self._waiting_bytes >= limits.waiting_bytes:
            raise BusBusy(
                f"{self._waiting} messages already wait for the server; retry in a second"
            )
        self._waiting += 1
        self._waiting_bytes += size
        try:
            backlog = self._backlogs.get(entry.uid) or self._make_backlog(entry.uid)
            if backlog.is_full:
                await self._check_backlog(backlog)
            appended = self._send(*entry.words())
            backlog.add(self._send, size)
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

    async def pause_of(self, uid: str) -> str:
        """Return why the worker of a pipeline has paused it, "" if it has not.

        Raises BusUnavailable and BusRefused.
        """
        return pauses_of(await read_workers(self._client)).get(uid, "")

    def _make_backlog(self, uid: str) -> Backlog:
        backlog = self._backlogs[uid] = Backlog(uid, self._limits)
        return backlog

    async def _check_backlog(self, backlog: Backlog) -> None:
        """Raise BusBusy if the backlog is full by a current answer of the server."""
        await backlog.look(self._send)
        if backlog.is_full:
            raise BusBusy(backlog.reason)

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
                commands = [words for words, _ in batch]
                replies = await self._client.call_all(commands, keep_refusals=True)
            except BusError as error:
                replies = [error] * len(batch)
            finally:
                for (_, future), reply in zip(batch, replies, strict=True):
                    _settle(future, reply)


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if isinstance(reply, BusError):
        fail(future, reply)
    elif not future.done():
        future.set_result(reply)
