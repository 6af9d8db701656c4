"""A server behind TLS: certificates of both sides, and a server that falls silent."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from memrelay.bus.client.connection import connect
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BadAddress, BusUnavailable
from tests.support.tls import Certificates, TlsServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates for all tests of this file."""
    return Certificates(tmp_path_factory.mktemp("tls"))


def ping(port: int, **files: str) -> bytes:
    """Return the reply to a PING over a new connection."""

    async def run() -> bytes:
        connection = await connect(Address(host="localhost", port=port, tls=True, **files))
        try:
            answer: bytes = await connection.call("PING")
            return answer
        finally:
            await connection.close()

    return asyncio.run(run())


def test_a_private_authority_is_accepted(certificates: Certificates) -> None:
    with TlsServer(certificates) as server:
        assert ping(server.port, ca=certificates.ca) == b"PONG"


def test_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    with TlsServer(certificates) as server:
        for files in ({}, {"ca": certificates.client}):
            with pytest.raises(BusUnavailable, match="certificate verify failed"):
                ping(server.port, **files)


def test_an_unknown_authority_is_told_where_to_name_it(certificates: Certificates) -> None:
    with (
        TlsServer(certificates) as server,
        pytest.raises(BusUnavailable, match=r"bus\.ca must be the PEM file"),
    ):
        ping(server.port)


def test_a_plain_connection_to_a_port_with_tls_is_told_the_scheme(
    certificates: Certificates,
) -> None:
    async def run(port: int) -> None:
        async with ReconnectingConnection(Address(host="localhost", port=port)) as connection:
            await connection.call("PING")

    with (
        TlsServer(certificates) as server,
        pytest.raises(BusUnavailable, match="write rediss:// for redis://"),
    ):
        asyncio.run(run(server.port))


def test_tls_to_a_plain_port_is_told_the_scheme() -> None:
    def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR Protocol error\r\n")
        writer.close()

    async def run(connect_over: Callable[[Address], Awaitable[object]]) -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await connect_over(Address(host="localhost", port=port, tls=True))

    async def call(address: Address) -> None:
        async with ReconnectingConnection(address) as connection:
            await connection.call("PING")

    for connect_over in (connect, call):
        with pytest.raises(BusUnavailable, match="write redis:// for rediss://"):
            asyncio.run(run(connect_over))


def test_a_certificate_for_another_name_is_refused(certificates: Certificates) -> None:
    with (
        TlsServer(certificates, certificates.stranger) as server,
        pytest.raises(BusUnavailable, match="not valid for"),
    ):
        ping(server.port, ca=certificates.ca)


def test_a_client_certificate_is_sent(certificates: Certificates) -> None:
    own = {"certificate": certificates.client, "key": certificates.key_of(certificates.client)}
    with TlsServer(certificates, asks=True) as server:
        assert ping(server.port, ca=certificates.ca, **own) == b"PONG"
        with pytest.raises(BusUnavailable, match="the connection to the server broke"):
            ping(server.port, ca=certificates.ca)


@pytest.mark.parametrize("which", ["ca", "certificate", "key"])
def test_an_unusable_file_is_named(certificates: Certificates, tmp_path: Path, which: str) -> None:
    files = {
        "ca": certificates.ca,
        "certificate": certificates.client,
        "key": certificates.key_of(certificates.client),
    }
    other = tmp_path / "other.pem"
    for content in (None, "no certificate"):
        if content is not None:
            other.write_text(content)
        with pytest.raises(
            BadAddress, match=r"bus\.ca, bus\.certificate or bus\.key cannot be used .*other\.pem"
        ):
            ping(1, **files | {which: str(other)})


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_silent_server_does_not_delay_the_close(certificates: Certificates, run: type) -> None:
    async def closing(port: int) -> float:
        connection = await connect(
            Address(host="localhost", port=port, tls=True, ca=certificates.ca)
        )
        await connection.call("PING")
        server.fall_silent()
        began = time.monotonic()
        await connection.close()
        return time.monotonic() - began

    with TlsServer(certificates) as server:
        assert run(closing(server.port)) < 5
