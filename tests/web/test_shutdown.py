"""Shutdown of the web server while clients connect."""

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from memrelay.bus.client.url import Address
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.app import SHUTDOWN_S, WebServer
from memrelay.web.server.options import WebOptions

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


# asyncio logs a connection that it accepted after the server has closed.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("turns", range(5))
def test_a_connection_during_shutdown_does_not_delay_it(turns: int, tmp_path: Path) -> None:
    asyncio.run(end_soon_after_a_connection(tmp_path, turns))
    gc.collect()  # asyncio's report of that connection arrives here


async def end_soon_after_a_connection(root: Path, turns: int) -> None:
    """Stop the server `turns` loop iterations after a client connects.

    The connection is then not yet accepted, not yet open, or not yet read.
    """
    address, secrets = Address(path=str(root / "no.sock")), SecretResolver(root, {})
    server = WebServer(address, root, WebOptions(port=0), secrets)
    serving = asyncio.create_task(server.run())
    await server.ready.wait()
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
        for _ in range(turns):
            await asyncio.sleep(0)
        server.stop()
        connection.sendall(REQUEST)
        async with asyncio.timeout(
            SHUTDOWN_S * 0.9
        ):  # aiohttp would wait this long for a request that it ignores
            await serving
        await asyncio.sleep(0.05)  # a rejected connection closes some iterations later
