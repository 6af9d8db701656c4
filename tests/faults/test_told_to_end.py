"""Row 22: SIGTERM under load, twice, and while the bus is away."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from itertools import count
from threading import Event, Thread

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants, assert_same
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.http import ask
from tests.support.processes import is_alive
from tests.support.proxy import Proxy
from tests.support.system import TestSystem
from tests.support.up_process import UpProcess
from tests.support.waiting import wait_for

GRACE_S, OVER_S = 3, 2


def end_in_time(process: ChildProcess, *, signals: int = 1) -> float:
    """Send SIGTERM so many times; the process must exit with 0 in time. Return the seconds."""
    began = time.monotonic()
    for _ in range(signals):
        process.terminate()
        time.sleep(0.02)
    assert process.await_end(GRACE_S + OVER_S) == 0, process.output
    assert "Traceback" not in process.output, process.output
    return time.monotonic() - began


@contextmanager
def load(system: TestSystem, uid: str) -> Iterator[list[str]]:
    """Send writes one by one until the end of the context; collect their texts."""
    texts: list[str] = []
    ended = Event()

    def enter() -> None:
        while not ended.is_set():
            system.client.enter(uid, f"/write {len(texts)}")
            texts.append(str(len(texts)))

    entering = Thread(target=enter)
    entering.start()
    try:
        yield texts
    finally:
        ended.set()
        entering.join()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_worker_stops_in_time_under_load(signals: int, record_figures: RecordFigures) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)], limits={"grace_s": GRACE_S})
        with load(system, uid) as texts:
            wait_for(lambda: len(system.contents(uid)) > 100, "the load is on")
            took_s = end_in_time(worker, signals=signals)
            assert system.client.unacknowledged(uid) == 0
            time.sleep(0.1)

        system.start_worker()
        assert_invariants(system, uid, texts)
        record_figures(
            22,
            f"SIGTERM to the worker under load, {'once' if signals == 1 else 'twice'}",
            ended_within_s=took_s,
            messages=len(texts),
        )


@pytest.mark.parametrize("way", ["gone", "silent"])
def test_a_worker_stops_in_time_without_a_bus(way: str, record_figures: RecordFigures) -> None:
    uid = make_uid()
    with TestSystem() as system, Proxy(system.client.socket, system.folder / "proxy.sock") as proxy:
        worker = system.start_worker(
            bundles=[make_bundle(uid)], limits={"grace_s": GRACE_S}, bus=proxy.socket
        )
        with load(system, uid) as texts:
            wait_for(lambda: len(system.contents(uid)) > 100, "the load is on")
            if way == "silent":
                proxy.hold()
        if way == "gone":
            system.kill_server()
            wait_for(lambda: "bus_lost" in worker.output, "it has noticed")
        took_s = end_in_time(worker, signals=2)

        proxy.let_go()
        system.server.start()
        system.start_worker()
        assert_invariants(system, uid, texts)
        record_figures(22, f"SIGTERM to the worker while the bus is {way}", ended_within_s=took_s)


@contextmanager
def posts(up: UpProcess) -> Iterator[dict[str, int]]:
    """Send numbered POSTs until the context or the server ends; collect the status of each text."""
    path, answers, ended = f"/v1/pipelines/{up.uid}/swarms/chat/messages", dict[str, int](), Event()

    def post() -> None:
        for number in count():
            if ended.is_set() or not up.process.lives:
                return
            with suppress(OSError, HTTPException):
                answers[str(number)] = ask(up.url, "POST", path, f"/write {number}").status

    posting = Thread(target=post)
    posting.start()
    try:
        yield answers
    finally:
        ended.set()
        posting.join()


@pytest.mark.parametrize("fault", ["under load", "while the server is being started again"])
def test_up_stops_in_time_and_leaves_no_server_behind(
    fault: str, record_figures: RecordFigures
) -> None:
    # The end waits for a model that is being read, which is slow on a cold disk.
    settings = {"WORKER__GRACE_S": str(GRACE_S), "EMBEDDING__MODEL": "none"}
    with TestSystem() as system:
        up = UpProcess(system, **settings)
        with posts(up) as answers:
            wait_for(lambda: len(answers) > 100, "the load is on")
            if fault != "under load":
                os.kill(up.servers[-1], signal.SIGKILL)
                up.process.await_event("embedded_server_gone")
            took_s = end_in_time(up.process, signals=2)

        assert [pid for pid in up.servers if is_alive(pid)] == []
        taken = [text for text, status in answers.items() if status == 202]
        again = UpProcess(system, **settings)
        wait_for(lambda: len(system.contents(up.uid)) >= len(taken), "all that was taken is there")
        assert again.process.stop() == 0
        assert_same([text for text in system.contents(up.uid) if text in taken], taken)
        record_figures(
            22, f"SIGTERM to all in one, {fault}", ended_within_s=took_s, taken=len(taken)
        )
