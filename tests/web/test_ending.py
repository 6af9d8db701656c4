"""The web server ends at once, whoever connects meanwhile."""

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from memrelay.bus.client.url import Address
from memrelay.web.server.service import GRACE_S, WebServer
from memrelay.web.server.services import WebOptions

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


# asyncio itself drops one that it accepted when its server has closed, and says so.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("turns", range(5))
def test_who_connects_when_it_is_told_to_end_does_not_hold_it_up(
    turns: int, tmp_path: Path
) -> None:
    asyncio.run(end_soon_after_a_connection(tmp_path, turns))
    gc.collect()  # what asyncio says of that connection is said here


async def end_soon_after_a_connection(root: Path, turns: int) -> None:
    """It is told to end so many turns of its loop after somebody has connected: before it is
    accepted, or open, or heard."""
    server = WebServer(Address(path=str(root / "no.sock")), root, WebOptions(port=0), str)
    serving = asyncio.create_task(server.run())
    await server.ready.wait()
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
        for _ in range(turns):
            await asyncio.sleep(0)
        server.stop()
        connection.sendall(REQUEST)
        async with asyncio.timeout(
            GRACE_S * 0.9
        ):  # what aiohttp would wait for a request that it does not hear
            await serving
        await asyncio.sleep(0.05)  # what was refused is closed some turns later
