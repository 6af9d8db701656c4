"""The connection of the data path: replies in order, pushes, failures, silence, blocking reads."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.client.connection import (
    SILENT_CHECKS,
    BlockingReads,
    Connection,
    SilenceTimeout,
    connect,
)
from memrelay.bus.client.resp import EXEC, MULTI, pack
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused, BusUnavailable
from tests.support.client import Client
from tests.support.server import running_server

READ = pack("XREAD", "BLOCK", 20_000, "STREAMS", "nothing", "$")
CHECK_S = 0.05
LONG_S = 3 * SILENT_CHECKS * CHECK_S


def run_connected(
    server: EmbeddedServer, act: Callable[[Connection], Awaitable[Any]], **address: Any
) -> Any:
    """Return the result of `act` with a new connection."""

    async def run() -> Any:
        connection = await connect(Address(path=str(server.socket_path), **address))
        try:
            return await act(connection)
        finally:
            await connection.close()

    return asyncio.run(run())


def test_each_caller_gets_the_reply_to_its_command(server: EmbeddedServer) -> None:
    async def act(connection: Connection) -> list[bytes]:
        return await asyncio.gather(
            *[connection.call("ECHO", f"{number}" * 50) for number in range(500)]
        )

    assert run_connected(server, act) == [f"{number}".encode() * 50 for number in range(500)]


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 300_000, 20 << 20])
def test_a_reply_of_any_size_is_complete(server: EmbeddedServer, size: int) -> None:
    data = os.urandom(size)

    assert run_connected(server, lambda connection: connection.call("ECHO", data)) == data


def test_a_refusal_affects_only_its_caller(
    server: EmbeddedServer,
) -> None:
    async def act(connection: Connection) -> tuple[str, bytes]:
        with pytest.raises(BusRefused) as refused:
            await connection.call("XADD", "tea", "no id", "a", "b")
        return refused.value.code, await connection.call("ECHO", "still here")

    assert run_connected(server, act) == ("ERR", b"still here")


def test_a_multi_returns_the_reply_of_its_exec(server: EmbeddedServer) -> None:
    async def act(connection: Connection) -> Any:
        commands = [pack("ECHO", number) for number in range(2000)]
        whole = connection.send(b"".join([MULTI, *commands, EXEC]), replies=2002)
        after = connection.call("ECHO", "after")
        return await whole, await after

    answers, after = run_connected(server, act)
    assert (answers, after) == ([str(number).encode() for number in range(2000)], b"after")


def test_a_multi_with_an_unknown_command_does_nothing(server: EmbeddedServer) -> None:
    async def act(connection: Connection) -> Any:
        with pytest.raises(BusRefused):
            await connection.send(
                b"".join([MULTI, pack("SET", "multi", 1), pack("NOSUCH"), EXEC]), replies=4
            )
        return await connection.call("EXISTS", "multi")

    assert run_connected(server, act) == 0


def test_published_messages_are_pushed_in_order(server: EmbeddedServer) -> None:
    async def act(publisher: Connection) -> list[tuple[bytes, bytes]]:
        pushed: list[tuple[bytes, bytes]] = []
        subscriber = await connect(
            Address(path=str(server.socket_path)), lambda *push: pushed.append(push)
        )
        await subscriber.send(pack("SUBSCRIBE", "a", "b"), replies=2)
        for number in range(300):
            await publisher.call("PUBLISH", "ab"[number % 2], number)
        await subscriber.send(pack("PING"))
        await subscriber.close()
        return pushed

    assert run_connected(server, act) == [
        (b"ab"[number % 2 :][:1], str(number).encode()) for number in range(300)
    ]


def test_connecting_fails_without_a_server(tmp_path: Path) -> None:
    for address in (
        Address(path=str(tmp_path / "nowhere.sock")),
        Address(host="127.0.0.1", port=1),
    ):
        with pytest.raises(BusUnavailable, match="no server answers at"):
            asyncio.run(connect(address))


def test_connecting_to_a_silent_server_times_out(tmp_path: Path) -> None:
    path = str(tmp_path / "silent.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()

        with pytest.raises(BusUnavailable, match="timed out"):
            asyncio.run(connect(Address(path=path, password="secret")))


def test_a_cancelled_connect_leaves_no_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "silent.sock")

    async def cancel_connect(silent: socket.socket) -> bytes:
        opening = asyncio.create_task(connect(Address(path=path, password="secret")))
        accepted, _ = await asyncio.get_running_loop().sock_accept(silent)
        with accepted:
            # After its AUTH the connection is open, and waits for the reply.
            await asyncio.get_running_loop().sock_recv(accepted, 1 << 10)
            opening.cancel()
            await asyncio.wait([opening])
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(accepted, 1), 2)

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        silent.setblocking(False)
        assert asyncio.run(cancel_connect(silent)) == b""


def test_a_full_server_is_reported_as_such(tmp_path: Path) -> None:
    async def act(connection: Connection) -> None:
        await connection.closed
        await connection.call("PING")

    with running_server(tmp_path / "bus") as server, Client(server.socket_path) as client:
        client.redis.config_set("maxclients", 1)

        with pytest.raises(BusUnavailable, match="max number of clients reached"):
            run_connected(server, act)


def test_a_killed_server_fails_all_pending_replies(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus", with_password=False)
    server.start()

    async def act(connection: Connection) -> None:
        waiting = connection.send(pack("BLPOP", "never", 0))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        for pending in (waiting, connection.call("PING")):
            with pytest.raises(BusUnavailable):
                await pending
        assert connection.closed.done()

    run_connected(server, act)
    server.stop()


def test_a_password_and_a_database_are_sent_first(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus", with_password=False)
    server.start()
    with Client(server.socket_path) as client:
        client.redis.config_set("requirepass", "secret")

    with pytest.raises(BusRefused):
        run_connected(server, lambda connection: connection.call("PING"))
    with pytest.raises(BusRefused):
        run_connected(server, lambda connection: connection.call("PING"), password="wrong")
    info = run_connected(
        server, lambda connection: connection.call("CLIENT", "INFO"), password="secret", database=3
    )

    assert b" db=3 " in info
    server.stop()
    gc.collect()  # a connection that was left open would warn now


def test_a_user_without_a_password_is_authenticated(tmp_path: Path) -> None:
    with running_server(tmp_path / "bus") as server, Client(server.socket_path) as client:
        client.redis.execute_command("ACL", "SETUSER", "keeper", "on", "nopass", "~*", "+@all")

        assert (
            run_connected(
                server, lambda connection: connection.call("ACL", "WHOAMI"), username="keeper"
            )
            == b"keeper"
        )


def silences_during(act: Callable[[SilenceTimeout, list[str]], None]) -> list[float]:
    """Return the silences after which the timeout gave up, while `act` runs at each check."""

    async def run() -> list[float]:
        silences, pending = list[float](), ["a reply"]
        timeout = SilenceTimeout(lambda: pending, silences.append, CHECK_S)
        timeout.start()
        ends_at = time.monotonic() + LONG_S
        while time.monotonic() < ends_at:
            act(timeout, pending)
            await asyncio.sleep(CHECK_S / 5)
        timeout.stop()
        return silences

    return asyncio.run(run())


def receive(timeout: SilenceTimeout, pending: list[str]) -> None:
    timeout.received = True


def test_a_silent_server_is_given_up_once() -> None:
    assert silences_during(lambda timeout, pending: None) == [SILENT_CHECKS * CHECK_S]


def test_a_server_that_sends_data_is_not_given_up() -> None:
    assert silences_during(receive) == []


def test_silence_without_pending_replies_is_ignored() -> None:
    assert silences_during(lambda timeout, pending: pending.clear()) == []


def test_a_pause_of_this_process_does_not_count_as_silence_of_the_server() -> None:
    def sleep_and_receive(timeout: SilenceTimeout, pending: list[str]) -> None:
        # Blocks the event loop, as a stopped process does; then the received data is read.
        time.sleep(LONG_S / 4)
        asyncio.get_running_loop().call_later(CHECK_S, receive, timeout, pending)

    assert silences_during(sleep_and_receive) == []


def run_blocking(
    server: EmbeddedServer, act: Callable[[BlockingReads, Connection], Awaitable[Any]]
) -> Any:
    """Return the result of `act` with blocking reads and their control connection."""

    async def run(control: Connection) -> Any:
        blocking = await connect(Address(path=str(server.socket_path)))
        try:
            return await act(BlockingReads(blocking, control), control)
        finally:
            await blocking.close()

    return run_connected(server, run)


def test_an_unblocked_read_returns_nothing_at_once(server: EmbeddedServer) -> None:
    async def act(reads: BlockingReads, _: Connection) -> object:
        reading = asyncio.create_task(reads.read(READ))
        await asyncio.sleep(0.1)
        reads.unblock()
        return await asyncio.wait_for(reading, 5)

    assert run_blocking(server, act) is None


def test_unblocking_is_repeated_if_it_arrives_before_the_read(server: EmbeddedServer) -> None:
    async def act(reads: BlockingReads, control: Connection) -> None:
        # Both commands are sent in one tick, so either may arrive first.
        for _ in range(200):
            reading = asyncio.create_task(reads.read(READ))
            await asyncio.sleep(0)
            reads.unblock()
            await asyncio.wait_for(reading, 5)

    run_blocking(server, act)


def test_unblocking_without_a_read_does_nothing(server: EmbeddedServer) -> None:
    async def act(reads: BlockingReads, control: Connection) -> object:
        reads.unblock()
        await control.call("XADD", "something", "*", "a", "b")
        return await reads.read(pack("XREAD", "BLOCK", 20_000, "STREAMS", "something", "0"))

    assert run_blocking(server, act)
