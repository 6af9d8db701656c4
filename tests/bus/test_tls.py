"""A server behind TLS: who vouches for it, who vouches for us, and one that falls silent."""

import asyncio
import time
from pathlib import Path

import pytest
import uvloop

from memrelay.bus.client.connection import connect
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BadAddress, BusUnavailable
from tests.support.tls import Certificates, TlsServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """They are the same for all tests of the file."""
    return Certificates(tmp_path_factory.mktemp("tls"))


def ping(port: int, **files: str) -> bytes:
    """What is answered over a connection of its own."""

    async def whole() -> bytes:
        connection = await connect(Address(host="localhost", port=port, tls=True, **files))
        try:
            answer: bytes = await connection.call("PING")
            return answer
        finally:
            await connection.close()

    return asyncio.run(whole())


def test_an_authority_of_ones_own_vouches_for_the_server(certificates: Certificates) -> None:
    with TlsServer(certificates) as server:
        assert ping(server.port, ca=certificates.ca) == b"PONG"


def test_a_server_that_nobody_vouches_for_is_told_as_such(certificates: Certificates) -> None:
    with TlsServer(certificates) as server:
        for files in ({}, {"ca": certificates.client}):
            with pytest.raises(BusUnavailable, match="certificate verify failed"):
                ping(server.port, **files)


def test_a_certificate_for_another_name_is_told_as_such(certificates: Certificates) -> None:
    with (
        TlsServer(certificates, certificates.stranger) as server,
        pytest.raises(BusUnavailable, match="not valid for"),
    ):
        ping(server.port, ca=certificates.ca)


def test_a_server_that_asks_for_a_certificate_gets_ours(certificates: Certificates) -> None:
    ours = {"certificate": certificates.client, "key": certificates.key_of(certificates.client)}
    with TlsServer(certificates, asks=True) as server:
        assert ping(server.port, ca=certificates.ca, **ours) == b"PONG"
        with pytest.raises(BusUnavailable, match="the connection to the server broke"):
            ping(server.port, ca=certificates.ca)


@pytest.mark.parametrize("which", ["ca", "certificate", "key"])
def test_a_file_that_cannot_be_used_is_named(
    certificates: Certificates, tmp_path: Path, which: str
) -> None:
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
def test_a_server_that_falls_silent_does_not_hold_up_the_end(
    certificates: Certificates, run: type
) -> None:
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
