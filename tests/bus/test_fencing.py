"""Fenced writes arrive in order while the fence exists, and not at all after it was deleted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memrelay.bus.client.connection import Connection, connect
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused, BusUnavailable, Fenced
from memrelay.bus.lease.fencing import MOST_BYTES, FencedWriter
from tests.support.client import Client
from tests.support.names import new_name


def run_fenced(
    server: EmbeddedServer, act: Callable[[FencedWriter, Connection, str], Awaitable[Any]]
) -> Any:
    """Return the result of `act` with a writer, another connection and an existing fence."""

    async def run() -> Any:
        address, fence = Address(path=str(server.socket_path)), new_name("fence")
        writing, other = await connect(address), await connect(address)
        await other.call("SET", fence, 1)
        writer = FencedWriter(writing, fence)
        try:
            await writer.open()
            return await act(writer, other, fence)
        finally:
            await writing.close()
            await other.close()

    return asyncio.run(run())


def push(key: str, value: str) -> bytes:
    return pack("RPUSH", key, value)


def test_each_caller_gets_the_replies_to_its_commands(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, _: Connection, __: str) -> None:
        sent = [
            writer.send([pack("ECHO", f"{number}") * (number + 1)], number + 1)
            for number in range(50)
        ]

        assert [await future for future in sent] == [
            [f"{number}".encode()] * (number + 1) for number in range(50)
        ]

    run_fenced(server, act)


def test_pieces_of_any_size_arrive_in_order(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, other: Connection, _: str) -> None:
        key, pad = new_name("list"), "x" * (MOST_BYTES // 3)
        await asyncio.gather(
            *[writer.send([push(key, f"{number:05}{pad}")], 1) for number in range(30)]
        )

        found = await other.call("LRANGE", key, 0, -1)
        assert [int(value[:5]) for value in found] == list(range(30))

    run_fenced(server, act)


def test_nothing_arrives_after_the_fence_was_deleted(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, other: Connection, fence: str) -> None:
        key = new_name("list")
        await writer.send([push(key, "before")], 1)
        await other.call("DEL", fence)

        late = [writer.send([push(key, "late")], 1) for _ in range(5)]

        for future in late:
            with pytest.raises(Fenced):
                await future
        with pytest.raises(Fenced):
            await writer.send([push(key, "later")], 1)
        assert await other.call("LRANGE", key, 0, -1) == [b"before"]

    run_fenced(server, act)


def test_a_fence_that_was_deleted_and_recreated_still_fences(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, other: Connection, fence: str) -> None:
        key = new_name("list")
        await other.call("DEL", fence)
        await other.call("SET", fence, 1)

        with pytest.raises(Fenced):
            await writer.send([push(key, "late")], 1)
        assert not await other.call("EXISTS", key)

    run_fenced(server, act)


def test_a_writer_without_a_fence_does_not_open(server: EmbeddedServer) -> None:
    async def run() -> None:
        connection = await connect(Address(path=str(server.socket_path)))
        with pytest.raises(Fenced):
            await FencedWriter(connection, new_name("fence")).open()
        await connection.close()

    asyncio.run(run())


def test_a_refused_command_has_its_error_among_the_replies(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, other: Connection, _: str) -> None:
        key, text = new_name("list"), new_name("text")
        await other.call("SET", text, "x")

        refused, done = await writer.send([push(text, "a") + push(key, "b")], 2)

        assert str(refused).startswith("WRONGTYPE")
        assert done == 1

    run_fenced(server, act)


def test_after_a_refused_multi_the_next_one_is_sent(
    server: EmbeddedServer,
) -> None:
    async def act(writer: FencedWriter, other: Connection, _: str) -> None:
        key = new_name("list")
        with pytest.raises(BusRefused):
            await writer.send([pack("NOSUCHCOMMAND")], 1)

        assert await writer.send([push(key, "a")], 1) == [1]

    run_fenced(server, act)


def test_a_broken_connection_fails_all_callers(server: EmbeddedServer) -> None:
    async def act(writer: FencedWriter, other: Connection, _: str) -> None:
        key = new_name("list")
        await other.call("CLIENT", "PAUSE", 200)
        waiting = [writer.send([push(key, "a")], 1) for _ in range(3)]
        await asyncio.sleep(0)
        with Client(server.socket_path):
            writer._connection.abort()

        for future in waiting:
            with pytest.raises(BusUnavailable):
                await future
        with pytest.raises(BusUnavailable):
            await writer.send([push(key, "a")], 1)

    run_fenced(server, act)
