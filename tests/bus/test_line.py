"""A line: opened when it is needed, opened again when it was lost, and one attempt for all who
wait."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusUnavailable
from tests.support.server import running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_server(tmp_path / "bus") as server:
        yield server


def line_to(server: EmbeddedServer, **told: Callable[..., None]) -> ReconnectingConnection:
    return ReconnectingConnection(Address(path=str(server.socket_path)), **told)


def restart(server: EmbeddedServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    server.start()


async def clients(line: ReconnectingConnection) -> int:
    told: bytes = await line.call("CLIENT", "LIST")
    return len(told.splitlines())


def test_nothing_is_opened_before_it_is_needed(server: EmbeddedServer) -> None:
    async def about() -> None:
        async with line_to(server) as line:
            assert line.ready is None
            await line.open()
            assert line.ready is not None

    asyncio.run(about())


def test_all_who_need_it_at_once_share_one_connection(server: EmbeddedServer) -> None:
    async def about() -> None:
        async with line_to(server) as line:
            await asyncio.gather(*[line.call("PING") for _ in range(50)])
            assert await clients(line) == 1

    asyncio.run(about())


def test_one_who_gives_up_while_it_is_opened_leaves_it_to_the_others(
    server: EmbeddedServer,
) -> None:
    async def about() -> Any:
        async with line_to(server) as line:
            impatient, patient = [asyncio.ensure_future(line.call("PING")) for _ in range(2)]
            await asyncio.sleep(0)
            impatient.cancel()
            return await patient

    assert asyncio.run(about()) == b"PONG"


def test_after_a_loss_it_is_opened_again_and_the_loss_is_told(server: EmbeddedServer) -> None:
    losses: list[bool] = []

    async def about() -> None:
        async with line_to(server, on_loss=lambda: losses.append(True)) as line:
            broken = await line.open()
            await asyncio.to_thread(lambda: None)
            waiting = line.open()
            assert await waiting is broken
            under_way = broken.send(pack("BLPOP", "never", 0))
            restart(server)
            with pytest.raises(BusUnavailable):
                await under_way
            assert line.ready is None
            assert await line.call("ECHO", "back") == b"back"
            assert losses == [True]

    asyncio.run(about())


def test_what_is_pushed_reaches_the_listener_after_a_loss_too(server: EmbeddedServer) -> None:
    async def about() -> list[bytes]:
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        found = []
        async with (
            line_to(server, on_push=lambda _, payload: heard.put_nowait(payload)) as line,
            line_to(server) as other,
        ):
            for number in range(2):
                await (await line.open()).send(pack("SUBSCRIBE", "tea"))
                await other.call("PUBLISH", "tea", str(number))
                found.append(await heard.get())
                restart(server)
                await asyncio.sleep(0.05)
        return found

    assert asyncio.run(about()) == [b"0", b"1"]


def test_where_nobody_answers_each_attempt_fails_and_the_next_may_succeed(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "bus")
    server.start()
    server.stop()

    async def about() -> Any:
        async with line_to(server) as line:
            for _ in range(3):
                with pytest.raises(BusUnavailable, match="no server answers"):
                    await line.call("PING")
            server.start()
            return await line.call("PING")

    assert asyncio.run(about()) == b"PONG"
    server.stop()


def test_it_can_be_closed_while_it_is_opened_and_twice(server: EmbeddedServer) -> None:
    async def about() -> None:
        line = line_to(server)
        opening = asyncio.ensure_future(line.call("PING"))
        await asyncio.sleep(0)
        await line.__aexit__()
        await line.__aexit__()
        await asyncio.wait([opening])
        assert opening.cancelled() or opening.exception() is not None

    asyncio.run(about())


def test_a_server_that_has_become_a_replica_is_left_for_who_takes_writes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    address = tmp_path / "address.sock"
    address.symlink_to(server.socket_path)

    async def about(successor: EmbeddedServer) -> bytes:
        async with ReconnectingConnection(Address(path=str(address))) as line:
            await line.call("SET", "tea", "green")
            await line.call("REPLICAOF", "127.0.0.1", "1")
            address.unlink()
            address.symlink_to(successor.socket_path)
            told = await asyncio.gather(
                *[line.call("SET", "tea", "black") for _ in range(3)], return_exceptions=True
            )
            assert {str(one).split(" ")[0] for one in told} == {"READONLY"}
            answer: bytes = await line.call("SET", "tea", "black")
            return answer

    with running_server(tmp_path / "successor") as successor:
        assert asyncio.run(about(successor)) == b"OK"


def test_an_attempt_that_nobody_waits_for_any_more_fails_without_a_word(tmp_path: Path) -> None:
    loud: list[dict[str, Any]] = []

    async def about(path: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: loud.append(told))
        async with ReconnectingConnection(Address(path=path, password="secret")) as line:
            waiting = asyncio.create_task(line.open())
            await asyncio.sleep(0.1)
            waiting.cancel()
            silent.close()
            await asyncio.wait([waiting])
            await asyncio.sleep(0.1)
            with pytest.raises(BusUnavailable):
                await line.open()  # another attempt

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path := str(tmp_path / "silent.sock"))
        listening.listen()
        silent = listening
        asyncio.run(about(path))
    gc.collect()

    assert loud == []
