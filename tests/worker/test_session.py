"""A worker whose connections cannot be opened, or break."""

import asyncio
import re
import time

from memrelay.bus.client.url import Address
from memrelay.worker.service import FIRST_PAUSE_S, LONGEST_PAUSE_S, Worker, WorkerOptions
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.run_worker import deploy
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

TICK_S = 0.001  # per round of a busy event loop; the server answers sooner


def pauses_s(worker: ChildProcess) -> list[float]:
    """Return the logged pauses after each session, in seconds."""
    return [float(told) for told in re.findall(r"bus_lost .*pause_s=([0-9.]+)", worker.output)]


def test_a_worker_with_too_few_connections_closes_them() -> None:
    with TestSystem() as system:
        redis = system.client.redis
        ours = len(redis.client_list())
        redis.config_set("maxclients", ours + 2)  # the worker has four
        worker = system.start_worker(ready=False)

        wait_for(lambda: len(pauses_s(worker)) > 2, "it has tried several times")

        wait_for(lambda: len(redis.client_list()) == ours, "it keeps none")
        redis.config_set("maxclients", ours + 10)
        worker.await_ready()


def test_pauses_restart_after_a_long_session() -> None:
    with TestSystem() as system:
        redis = system.client.redis
        redis.config_set("maxclients", len(redis.client_list()) + 2)
        worker = system.start_worker(ready=False)
        wait_for(lambda: len(pauses_s(worker)) > 2, "it has tried several times")
        redis.config_set("maxclients", 100)
        worker.await_ready()
        held_until = time.monotonic() + LONGEST_PAUSE_S
        wait_for(lambda: time.monotonic() > held_until, "it held")
        before = pauses_s(worker)

        redis.client_kill_filter(_type="normal", skipme=True)

        wait_for(lambda: len(pauses_s(worker)) > len(before), "it has noticed")
        assert before == sorted(before) and before[0] == FIRST_PAUSE_S < before[-1]
        assert pauses_s(worker)[len(before)] == FIRST_PAUSE_S


def test_a_connection_that_breaks_during_a_deploy_ends_only_the_session() -> None:
    uids = [make_uid() for _ in range(40)]
    with TestSystem() as system:
        asyncio.run(break_while_they_begin(system, uids))

        assert system.contents(uids[-1]) == ["tea"]


async def break_while_they_begin(system: TestSystem, uids: list[str]) -> None:
    """Break the connection while pipelines begin; replies arrive in each tick."""
    begun: list[str] = []

    def cut(step: str) -> None:
        begun.extend([step] * (step == "taken over"))
        if len(begun) == len(uids) // 4:
            system.client.redis.client_kill_filter(_type="pubsub")

    worker = Worker(WorkerOptions(Address(path=str(system.server.socket_path)), system.root), cut)
    running = asyncio.create_task(worker.run())
    await worker.ready.wait()
    keep_busy(asyncio.get_running_loop())
    await deploy(system.root, *[make_bundle(uid) for uid in uids])
    system.announce()
    answered = asyncio.create_task(asyncio.to_thread(system.client.answer, uids[-1], "/write tea"))
    await asyncio.wait([running, answered], return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    async with asyncio.timeout(30):  # the answer may come before the cut
        while len(begun) <= len(uids) // 4:
            await asyncio.sleep(0.01)
    worker.stop()
    await running


def keep_busy(loop: asyncio.AbstractEventLoop) -> None:
    """Make each tick of the event loop take some time."""
    time.sleep(TICK_S)
    loop.call_soon(keep_busy, loop)
