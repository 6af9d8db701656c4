"""Clients that stop reading: their buffers are limited, and connections of workers are kept."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from memrelay.bus.client.connection import Connection, connect
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.lease.lease import Lease
from tests.support.server import running_server

MB = 1 << 20


@contextmanager
def stopped_readers(server: EmbeddedServer, count: int) -> Iterator[list[socket.socket]]:
    """Yield sockets that subscribe and then read nothing."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
        for one in sockets:
            one.connect(str(server.socket_path))
            one.sendall(b"SUBSCRIBE news\r\n")
            one.recv(100)
        yield sockets


def listeners(client: redis.Redis) -> int:
    return int(client.pubsub_numsub("news")[0][1])


@pytest.mark.parametrize("size", [1000, 20_000, MB])
def test_a_client_that_stops_reading_is_disconnected_at_any_message_size(
    tmp_path: Path, size: int
) -> None:
    with (
        running_server(tmp_path / "bus") as server,
        redis.Redis(unix_socket_path=str(server.socket_path)) as client,
        stopped_readers(server, 1),
    ):
        client.config_set("client-output-buffer-limit", "pubsub 8388608 0 0")
        with client.pipeline(transaction=False) as together:
            for _ in range(10 * MB // size):
                together.publish("news", b"x" * size)
            together.execute()

        assert listeners(client) == 0


def test_beyond_the_common_limit_the_clients_with_the_longest_buffers_are_disconnected(
    tmp_path: Path,
) -> None:
    with (
        running_server(tmp_path / "bus") as server,
        redis.Redis(unix_socket_path=str(server.socket_path)) as client,
        stopped_readers(server, 4) as stopped,
    ):
        assert client.config_get("maxmemory-clients") == {"maxmemory-clients": str(512 * MB)}
        client.config_set("maxmemory-clients", 8 * MB)
        for _ in range(6):
            client.publish("news", b"x" * MB)
            assert len(stopped[0].recv(MB, socket.MSG_WAITALL)) == MB  # this client reads on

        stopped[0].sendall(b"PING\r\n")
        last = b""
        while b"pong" not in last and (data := stopped[0].recv(MB)):
            last += data

        assert listeners(client) <= 3
        assert b"pong" in last


def test_connections_of_a_worker_are_kept(tmp_path: Path) -> None:
    async def kept(server: EmbeddedServer) -> tuple[bool, bool]:
        address = Address(path=str(server.socket_path))
        ours, other = [await connect(address) for _ in range(2)]
        async with ReconnectingConnection(address) as control:
            await Lease(control, "worker", 1000).sign_on([ours], {})
        found = await survives_large_command(ours), await survives_large_command(other)
        for connection in (ours, other):
            await connection.close()
        return found

    with (
        running_server(tmp_path / "bus") as server,
        redis.Redis(unix_socket_path=str(server.socket_path)) as client,
    ):
        client.config_set("maxmemory-clients", 2 * MB)

        assert asyncio.run(kept(server)) == (True, False)


async def survives_large_command(connection: Connection) -> bool:
    """Return whether the server keeps a connection that sends 16 MB at once."""
    await asyncio.wait(
        [connection.send(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (16 * MB, b"x" * 16 * MB))]
    )
    return not connection.closed.done()
