"""Redis clients for every connection outside the worker's data path, based on redis-py.

A command costs about 100 microseconds here, and 12 within a pipeline of 50. The worker's data path
uses `connection.Connection` instead.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Self

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from memrelay.bus.client.primary import make_pool_options
from memrelay.bus.client.resp import Word, pack
from memrelay.bus.client.unreachable import make_unreachable
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused, BusUnavailable
from memrelay.bus.keys import all_cells

CONNECT_TIMEOUT_S = 5.0
# How long a silent server is waited for. Longer than any blocking read.
REPLY_TIMEOUT_S = 7.5
# Errors of a node for keys that another one has.
OF_CLUSTER = (AskError, MovedError, ClusterDownError, TryAgainError)
# A cell in a key.
HASH_TAG = re.compile(r"\{(c[0-9]{2})\}")
# A silent TLS server would delay the close by half a minute.
CLOSE_TIMEOUT_S = 0.25

# The beginning of a Lua script: `now` is the server's time in Unix ms.
NOW = "local now = redis.call('TIME')\nnow = now[1] * 1000 + math.floor(now[2] / 1000)\n"


class ReconnectingConnection:
    """A client that connects at first use, and again after a connection was lost.

    A command under way when its connection breaks fails, and is never repeated: only the caller
    knows whether that is safe. Replies are raw, as the server sends them. `connections` is the
    size of the pool; commands wait for a free one. Use the client as an asynchronous context
    manager. Raises BadAddress if a TLS file cannot be used.
    """

    def __init__(self, address: Address, *, connections: int = 4) -> None:
        self._address = address
        # The cells whose keys it reaches: one, or all of a cluster.
        self.cells = all_cells() if address.nodes and not address.cell else [address.cell]
        self._clients = {
            cell: _make_client(replace(address, cell=cell), connections) for cell in self.cells
        }
        self._first = self.cells[0]
        self._has_answered = False

    @property
    def address(self) -> Address:
        """Return the address of the server."""
        return self._address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            with suppress(TimeoutError, RedisError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await client.aclose()

    def _find_cell(self, words: Sequence[Word], default: str) -> str:
        """Return the cell of the keys in a command, `default` if it has none."""
        if len(self._clients) == 1:
            return self._first
        for word in words:
            text = word if isinstance(word, str) else ""
            if found := HASH_TAG.search(text):
                return found[1]
        return default

    async def call(self, *words: Word) -> Any:
        """Run one command and return its reply. Raises BusRefused and BusUnavailable."""
        (reply,) = await self._call_cell(self._find_cell(words, self._first), [words])
        if isinstance(reply, RedisError):
            await self._leave_moved([reply])
            raise self._translate(reply) from reply
        return reply

    async def call_all(
        self, commands: Sequence[Sequence[Word]], *, keep_refusals: bool = False
    ) -> list[Any]:
        """Run several commands in one write for each cell and return their replies.

        A command without a key goes where the one before it goes. With `keep_refusals` a refused
        command has a BusRefused in place of its reply. Otherwise the first one is raised; the other
        commands have run. Raises BusUnavailable: some commands may have run.
        """
        of_cells: dict[str, list[int]] = {}
        cell = self._first
        for number, words in enumerate(commands):
            cell = self._find_cell(words, cell)
            of_cells.setdefault(cell, []).append(number)
        replies: list[Any] = [None] * len(commands)
        for cell, numbers in of_cells.items():
            answers = await self._call_cell(cell, [commands[number] for number in numbers])
            for number, reply in zip(numbers, answers, strict=True):
                replies[number] = reply
        refusals = [reply for reply in replies if isinstance(reply, RedisError)]
        if not refusals:
            return replies
        await self._leave_moved(refusals)
        if not keep_refusals:
            raise self._translate(refusals[0])
        return [self._translate(one) if isinstance(one, RedisError) else one for one in replies]

    async def _call_cell(self, cell: str, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Return the replies of one server. A refused command has a RedisError.

        redis-py's own calls do the same at twice the processor time.
        """
        pool, packed = self._clients[cell].connection_pool, [pack(*words) for words in commands]
        async with self._translate_errors():
            connection = await pool.get_connection()  # type: ignore[no-untyped-call]
            replies = list[Any]()
            try:
                await connection.send_packed_command(packed)
                replies += [await _read_reply(connection) for _ in commands]
            finally:
                # Otherwise, unread replies would answer the next command.
                if len(replies) < len(commands):
                    await connection.disconnect(nowait=True)
                await pool.release(connection)
        return replies

    async def run_script(self, script: str, keys: Sequence[str], *arguments: Word) -> Any:
        """Run a Lua script and return its result. Raises BusRefused and BusUnavailable."""
        return await self.call("EVAL", script, len(keys), *keys, *arguments)

    async def subscribe(self, pattern: str) -> PubSub:
        """Return a confirmed subscription to a pattern of channels, which the caller closes.

        It occupies one connection of the pool. Raises BusRefused and BusUnavailable.
        """
        # A message in a cluster reaches the subscribers of all nodes.
        subscription = self._clients[self._first].pubsub()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(subscription.aclose)
            async with self._translate_errors():
                await subscription.psubscribe(pattern)
                await subscription.get_message(timeout=None)
            undo.pop_all()
        return subscription

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                yield
            self._has_answered = True
        except TimeoutError as error:
            raise BusUnavailable(
                f"the server at {self._address} has answered nothing for {REPLY_TIMEOUT_S:g} s"
            ) from error
        except RedisError as error:
            await self._leave_moved([error])
            raise self._translate(error) from error

    async def _leave_moved(self, refusals: Sequence[RedisError]) -> None:
        """Reconnect if another server has the keys now: the address may name it."""
        if any(isinstance(refusal, (ReadOnlyError, *OF_CLUSTER)) for refusal in refusals):
            for client in self._clients.values():
                await client.connection_pool.disconnect(inuse_connections=False)

    def _translate(self, error: RedisError) -> BusError:
        # On a Unix socket redis-py wraps errors of the handshake.
        if isinstance(error.__cause__, RedisError):
            error = error.__cause__
        # redis-py counts MASTERDOWN, of a replica without its primary, to these.
        if isinstance(error, OF_CLUSTER) and not isinstance(error, MasterDownError):
            return BusUnavailable(f"the keys move between nodes of {self._address}: {error}")
        if isinstance(error, ResponseError | AuthenticationError | BusyLoadingError):
            # redis-py removes the first word from the errors that it knows.
            return BusRefused(f"{error.status_code or ''} {error}".strip())
        advice = "" if self._has_answered else self._address.explain_tls(str(error))
        return make_unreachable(self._address, f"{error}{advice}")


async def _read_reply(connection: AbstractConnection) -> Any:
    """Return the next reply, which is a ResponseError for a refused command."""
    try:
        return await connection.read_response()
    except ResponseError as refusal:
        return refusal


def _make_client(address: Address, connections: int) -> Redis:
    client = Redis.from_pool(
        BlockingConnectionPool(
            max_connections=connections,
            timeout=REPLY_TIMEOUT_S,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            # redis-py would wait with asyncio.wait_for, which swallows cancellation in Python
            # 3.11. `_translate_errors` bounds the wait instead.
            socket_timeout=None,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            driver_info=None,
            **make_pool_options(address),
        )
    )
    client.response_callbacks.clear()
    return client


class Backoff:
    """Delays before a restart, which double from `first_s` to `most_s`.

    They start over after a life of at least `healthy_after_s`.
    """

    def __init__(self, *, first_s: float, most_s: float, healthy_after_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._healthy_after_s = healthy_after_s
        self._next_s = first_s

    def delay_s(self, life_s: float) -> float:
        """Return the delay after a life of `life_s` seconds, 0 if the start failed."""
        if life_s >= self._healthy_after_s:
            self._next_s = self._first_s
        delay = self._next_s
        self._next_s = min(delay * 2, self._most_s)
        return delay
