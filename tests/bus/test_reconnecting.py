"""The redis-py clients: connections at first use and after a loss, errors, pipelines, backoff."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

from memrelay.bus.client.reconnecting import Backoff, ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusRefused, BusUnavailable
from tests.support.client import Client
from tests.support.server import running_server
from tests.support.tls import Certificates, TlsServer

Act = Callable[[ReconnectingConnection], Awaitable[Any]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_server(tmp_path / "bus") as server:
        yield server


def run_client(server: EmbeddedServer, act: Act, **address: Any) -> Any:
    """Return the result of `act` with a client of the server."""
    return run_at(Address(path=str(server.socket_path), **address), act)


def run_at(address: Address, act: Act) -> Any:
    async def run() -> Any:
        async with ReconnectingConnection(address) as client:
            return await act(client)

    return asyncio.run(run())


def kill(server: EmbeddedServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)


def restart(server: EmbeddedServer) -> None:
    kill(server)
    server.start()


async def count_connections(client: ReconnectingConnection) -> int:
    listed: bytes = await client.call("CLIENT", "LIST")
    return len(listed.splitlines())


def test_a_client_connects_at_first_use(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        async with ReconnectingConnection(Address(path=str(server.socket_path))) as idle:
            assert await count_connections(client) == 1
            await idle.call("PING")
            assert await count_connections(client) == 2

    run_client(server, act)


def test_concurrent_commands_share_a_small_pool(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        await asyncio.gather(*[client.call("PING") for _ in range(50)])
        assert await count_connections(client) <= 4

    run_client(server, act)


def test_replies_are_raw(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        await client.call("HSET", "tea", "colour", "green")
        assert await client.call("HGETALL", "tea") == [b"colour", b"green"]
        assert await client.call("EXISTS", "coffee") == 0

    run_client(server, act)


def test_a_pipeline_returns_replies_in_order(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        replies = await client.call_all([("ECHO", number) for number in range(2000)])
        assert replies == [str(number).encode() for number in range(2000)]
        assert await client.call_all([]) == []

    run_client(server, act)


def test_a_refused_command_of_a_pipeline_is_kept_in_place_or_raised(
    server: EmbeddedServer,
) -> None:
    async def act(client: ReconnectingConnection) -> None:
        commands = [("SET", "text", "x"), ("RPUSH", "text", "y"), ("ECHO", "z")]
        done, refusal, echo = await client.call_all(commands, keep_refusals=True)
        assert (done, refusal.code, echo) == (b"OK", "WRONGTYPE", b"z")
        with pytest.raises(BusRefused, match="WRONGTYPE"):
            await client.call_all(commands)

    run_client(server, act)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("NOSUCHCOMMAND",), "ERR"),
        (("XREADGROUP", "GROUP", "owner", "a", "STREAMS", "nothing", ">"), "NOGROUP"),
        (("EVAL", "return redis.error_reply('OOM full')", 0), "OOM"),
        (("EVAL", "return redis.error_reply('LOADING soon')", 0), "LOADING"),
    ],
)
def test_a_refusal_begins_with_the_code_of_the_server(
    server: EmbeddedServer, command: tuple[Any, ...], code: str
) -> None:
    with pytest.raises(BusRefused) as refused:
        run_client(server, lambda client: client.call(*command))

    assert refused.value.code == code


def test_a_cancelled_command_leaves_the_client_usable(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> Any:
        first, second = [asyncio.ensure_future(client.call("ECHO", text)) for text in "ab"]
        await asyncio.sleep(0)
        first.cancel()
        blocked = asyncio.ensure_future(client.call("BLPOP", "never", 0))
        await asyncio.sleep(0.05)
        blocked.cancel()
        return await second, await client.call("ECHO", "c")

    assert run_client(server, act) == (b"b", b"c")


def test_a_command_under_way_fails_and_the_next_one_reconnects(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        under_way = asyncio.ensure_future(client.call("BLPOP", "never", 0))
        await asyncio.sleep(0.1)
        restart(server)
        with pytest.raises(BusUnavailable):
            await under_way
        assert await client.call("ECHO", "back") == b"back"

    run_client(server, act)


def test_a_command_under_way_is_not_repeated(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> None:
        assert server.pid is not None
        await client.call("PING")
        os.kill(server.pid, signal.SIGSTOP)
        under_way = asyncio.ensure_future(client.call("RPUSH", "tea", "green"))
        await asyncio.sleep(0.1)
        restart(server)
        with pytest.raises(BusUnavailable):
            await under_way
        assert await client.call("LLEN", "tea") == 0

    run_client(server, act)


def test_each_attempt_fails_without_a_server_and_a_later_one_succeeds(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus", with_password=False)
    server.start()
    server.stop()

    async def act(client: ReconnectingConnection) -> Any:
        for _ in range(3):
            with pytest.raises(BusUnavailable, match="no server answers"):
                await client.call("PING")
        server.start()
        return await client.call("PING")

    assert run_client(server, act) == b"PONG"
    server.stop()


@pytest.mark.slow
def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path := str(tmp_path / "silent.sock"))
        silent.listen()

        with pytest.raises(BusUnavailable, match=r"has answered nothing for 7\.5 s"):
            run_at(Address(path=path), lambda client: client.call("PING"))


def test_a_full_server_is_reported_as_unavailable(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as admin:
        admin.redis.config_set("maxclients", 1)

        with pytest.raises(BusUnavailable, match="no server answers"):
            run_client(server, lambda client: client.call("PING"))


def test_a_password_and_a_database_are_used(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as admin:
        admin.redis.config_set("requirepass", "secret")

    async def info(client: ReconnectingConnection) -> Any:
        return await client.call("CLIENT", "INFO")

    for wrong, code in (({}, "NOAUTH"), ({"password": "wrong"}, "WRONGPASS")):
        with pytest.raises(BusRefused, match=code):
            run_client(server, info, **wrong)
    assert b" db=3 " in run_client(server, info, password="secret", database=3)


def test_a_user_without_a_password_is_authenticated(server: EmbeddedServer) -> None:
    with Client(server.socket_path) as admin:
        admin.redis.execute_command("ACL", "SETUSER", "keeper", "on", "nopass", "~*", "+@all")

    assert (
        run_client(server, lambda client: client.call("ACL", "WHOAMI"), username="keeper")
        == b"keeper"
    )


def test_tls_files_are_used_and_checked(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    own = {"certificate": certificates.client, "key": certificates.key_of(certificates.client)}

    with TlsServer(certificates, asks=True) as server:
        address = Address(host="localhost", port=server.port, tls=True, ca=certificates.ca, **own)
        assert run_at(address, lambda client: client.call("PING")) == b"PONG"
        address = Address(host="localhost", port=server.port, tls=True, **own)
        with pytest.raises(BusUnavailable, match="certificate verify failed"):
            run_at(address, lambda client: client.call("PING"))


def test_a_subscription_receives_messages_and_reports_a_loss(server: EmbeddedServer) -> None:
    async def act(client: ReconnectingConnection) -> list[bytes]:
        subscription = await client.subscribe("tea.*")
        messages = subscription.listen()
        assert await client.call("PUBLISH", "tea.green", "hot") == 1
        message = await anext(messages)
        kill(server)
        with pytest.raises(RedisError):
            await anext(messages)
        await subscription.aclose()
        return [message["channel"], message["data"]]

    assert run_client(server, act) == [b"tea.green", b"hot"]


def test_a_client_can_be_closed_while_it_connects_and_twice(server: EmbeddedServer) -> None:
    async def run() -> None:
        client = ReconnectingConnection(Address(path=str(server.socket_path)))
        connecting = asyncio.ensure_future(client.call("PING"))
        await asyncio.sleep(0)
        await client.__aexit__()
        await client.__aexit__()
        await asyncio.wait([connecting])

    asyncio.run(run())


def test_after_a_failover_the_address_is_connected_to_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    address = tmp_path / "address.sock"
    address.symlink_to(server.socket_path)

    async def act(client: ReconnectingConnection, successor: EmbeddedServer) -> Any:
        await client.call("SET", "tea", "green")
        await client.call("REPLICAOF", "127.0.0.1", "1")
        address.unlink()
        address.symlink_to(successor.socket_path)
        with pytest.raises(BusRefused, match="READONLY"):
            await client.call("SET", "tea", "black")
        return await client.call("SET", "tea", "black")

    with running_server(tmp_path / "successor") as successor:
        address_of = Address(path=str(address))
        assert run_at(address_of, lambda client: act(client, successor)) == b"OK"


def test_an_abandoned_attempt_to_connect_logs_nothing(tmp_path: Path) -> None:
    logged: list[dict[str, Any]] = []

    async def run(path: str, silent: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        async with ReconnectingConnection(Address(path=path, password="secret")) as client:
            waiting = asyncio.create_task(client.call("PING"))
            await asyncio.sleep(0.1)
            waiting.cancel()
            silent.close()
            await asyncio.wait([waiting])
            with pytest.raises(BusUnavailable):
                await client.call("PING")

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path := str(tmp_path / "silent.sock"))
        silent.listen()
        asyncio.run(run(path, silent))
    gc.collect()

    assert logged == []


def test_restart_delays_grow_until_a_healthy_life() -> None:
    backoff = Backoff(first_s=0.1, most_s=0.5, healthy_after_s=30)

    assert [backoff.delay_s(1.0) for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    assert backoff.delay_s(31.0) == 0.1
