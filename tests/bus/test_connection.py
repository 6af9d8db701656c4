"""The connection: commands to a real server, its answers in order, what is pushed, and what
breaks."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.client.connection import Connection, connect
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused, BusUnavailable
from tests.support.client import Client
from tests.support.server import running_server


def talk(
    server: EmbeddedServer, about: Callable[[Connection], Awaitable[Any]], **address: Any
) -> Any:
    """What the talk over a connection of its own comes to."""

    async def whole() -> Any:
        connection = await connect(Address(path=str(server.socket_path), **address))
        try:
            return await about(connection)
        finally:
            await connection.close()

    return asyncio.run(whole())


def test_every_caller_gets_the_answer_to_what_it_asked(server: EmbeddedServer) -> None:
    async def about(connection: Connection) -> list[bytes]:
        return await asyncio.gather(
            *[connection.call("ECHO", f"{number}" * 50) for number in range(500)]
        )

    assert talk(server, about) == [f"{number}".encode() * 50 for number in range(500)]


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 300_000, 20 << 20])
def test_an_answer_of_any_size_comes_whole(server: EmbeddedServer, size: int) -> None:
    data = os.urandom(size)

    assert talk(server, lambda connection: connection.call("ECHO", data)) == data


def test_a_refusal_is_the_callers_and_the_next_answer_the_next_callers(
    server: EmbeddedServer,
) -> None:
    async def about(connection: Connection) -> tuple[str, bytes]:
        with pytest.raises(BusRefused) as refused:
            await connection.call("XADD", "tea", "no id", "a", "b")
        return refused.value.code, await connection.call("ECHO", "still here")

    assert talk(server, about) == ("ERR", b"still here")


def test_a_multi_has_one_answer_that_of_its_exec(server: EmbeddedServer) -> None:
    async def about(connection: Connection) -> Any:
        commands = [pack("ECHO", number) for number in range(2000)]
        whole = connection.send(b"".join([MULTI, *commands, EXEC]), replies=2002)
        after = connection.call("ECHO", "after")
        return await whole, await after

    answers, after = talk(server, about)
    assert (answers, after) == ([str(number).encode() for number in range(2000)], b"after")


def test_a_multi_with_a_refused_command_is_refused_as_a_whole(server: EmbeddedServer) -> None:
    async def about(connection: Connection) -> Any:
        with pytest.raises(BusRefused):
            await connection.send(
                b"".join([MULTI, pack("SET", "multi", 1), pack("NOSUCH"), EXEC]), replies=4
            )
        return await connection.call("EXISTS", "multi")

    assert talk(server, about) == 0


def test_what_is_published_is_pushed_in_order(server: EmbeddedServer) -> None:
    async def about(speaking: Connection) -> list[tuple[bytes, bytes]]:
        heard: list[tuple[bytes, bytes]] = []
        hearing = await connect(
            Address(path=str(server.socket_path)), lambda *push: heard.append(push)
        )
        await hearing.send(pack("SUBSCRIBE", "a", "b"), replies=2)
        for number in range(300):
            await speaking.call("PUBLISH", "ab"[number % 2], number)
        await hearing.send(pack("PING"))
        await hearing.close()
        return heard

    assert talk(server, about) == [
        (b"ab"[number % 2 :][:1], str(number).encode()) for number in range(300)
    ]


def test_where_nobody_listens_there_is_no_connection(tmp_path: Path) -> None:
    for address in (
        Address(path=str(tmp_path / "nowhere.sock")),
        Address(host="127.0.0.1", port=1),
    ):
        with pytest.raises(BusUnavailable, match="no server answers at"):
            asyncio.run(connect(address))


def test_a_server_that_says_nothing_is_told_as_late(tmp_path: Path) -> None:
    path = str(tmp_path / "silent.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()

        with pytest.raises(BusUnavailable, match="timed out"):
            asyncio.run(connect(Address(path=path, password="secret")))


def test_who_gives_up_before_a_server_answers_leaves_no_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "silent.sock")

    async def given_up(silent: socket.socket) -> bytes:
        opening = asyncio.create_task(connect(Address(path=path, password="secret")))
        accepted, _ = await asyncio.get_running_loop().sock_accept(silent)
        with accepted:
            await asyncio.get_running_loop().sock_recv(
                accepted, 1 << 10
            )  # its AUTH: it is open, and waits
            opening.cancel()
            await asyncio.wait([opening])
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(accepted, 1), 2)

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        silent.setblocking(False)
        assert asyncio.run(given_up(silent)) == b""


def test_a_server_that_has_too_many_clients_is_told_as_such(tmp_path: Path) -> None:
    async def about(connection: Connection) -> None:
        await connection.closed
        await connection.call("PING")

    with running_server(tmp_path / "bus") as server, Client(server.socket_path) as client:
        client.redis.config_set("maxclients", 1)

        with pytest.raises(BusUnavailable, match="max number of clients reached"):
            talk(server, about)


def test_a_server_that_dies_leaves_nobody_waiting(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus")
    server.start()

    async def about(connection: Connection) -> None:
        waiting = connection.send(pack("BLPOP", "never", 0))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        for asked in (waiting, connection.call("PING")):
            with pytest.raises(BusUnavailable):
                await asked
        assert connection.closed.done()

    talk(server, about)
    server.stop()


def test_a_password_and_a_database_are_told_first(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus")
    server.start()
    with Client(server.socket_path) as client:
        client.redis.config_set("requirepass", "secret")

    with pytest.raises(BusRefused):
        talk(server, lambda connection: connection.call("PING"))
    with pytest.raises(BusRefused):
        talk(server, lambda connection: connection.call("PING"), password="wrong")
    info = talk(
        server, lambda connection: connection.call("CLIENT", "INFO"), password="secret", database=3
    )

    assert b" db=3 " in info
    server.stop()
    gc.collect()  # a connection that was left open would tell so now


def test_a_user_without_a_password_is_told_too(tmp_path: Path) -> None:
    with running_server(tmp_path / "bus") as server, Client(server.socket_path) as client:
        client.redis.execute_command("ACL", "SETUSER", "keeper", "on", "nopass", "~*", "+@all")

        assert (
            talk(server, lambda connection: connection.call("ACL", "WHOAMI"), username="keeper")
            == b"keeper"
        )
