"""Large entries are read a few at a time, so that they do not fill the worker's memory."""

import asyncio
from pathlib import Path

import pytest

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.streams.input_stream import read_count
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.system import TestSystem

MB = 1 << 20


def enter_large(system: TestSystem, uid: str, count: int, size: int) -> None:
    for _ in range(count):
        system.client.enter_raw(uid, b"x" * size)


def test_fewer_entries_are_read_at_once_if_they_are_large(system: TestSystem) -> None:
    small, large = make_uid(), make_uid()
    enter_large(system, small, 200, 100)
    enter_large(system, large, 5, 8 * MB)

    async def run() -> list[int]:
        async with ReconnectingConnection(Address(path=str(system.client.socket))) as client:
            return [await read_count(client, input_of(uid), 256) for uid in (small, large)]

    assert asyncio.run(run()) == [256, 1]
    system.client.redis.delete(input_of(large))


@pytest.mark.slow
@pytest.mark.parametrize("state", ["waiting", "in flight", "arriving"])
def test_large_entries_do_not_fill_the_memory(state: str) -> None:
    uid, count = make_uid(), 40
    with TestSystem() as system:
        worker = system.start_worker(fresh=True, bundles=[make_bundle(uid)])
        if state != "arriving":
            worker.stop()
        enter_large(system, uid, count, 8 * MB)
        if state == "in flight":
            system.client.redis.xreadgroup("owner", "stranger", {input_of(uid): ">"}, count=count)
        if state != "arriving":
            worker = system.start_worker(fresh=True)

        system.client.await_quiet(uid, 60)

        assert len(system.dead_letters(uid)) == count
        assert peak_mb(worker.pid) < 220


def peak_mb(pid: int) -> int:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))
