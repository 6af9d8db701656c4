"""Row 22: SIGTERM under load, twice, and while the bus is away."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.faults.conftest import Tell
from tests.faults.promises import assert_promises, assert_same
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.everything import Everything
from tests.support.house import House
from tests.support.http import ask
from tests.support.proxy import Proxy
from tests.support.waiting import wait_for

GRACE_S, OVER_S = 3, 2


def end_in_time(process: ChildProcess, *, signals: int = 1) -> float:
    """Send SIGTERM so many times; the process must exit with 0 in time. Return the seconds."""
    began = time.monotonic()
    for _ in range(signals):
        process.tell_to_end()
        time.sleep(0.02)
    assert process.await_end(GRACE_S + OVER_S) == 0, process.said
    assert "Traceback" not in process.said, process.said
    return time.monotonic() - began


@contextmanager
def load(house: House, uid: str) -> Iterator[list[str]]:
    """Send writes one by one until the end of the context; collect their texts."""
    texts: list[str] = []
    ended = Event()

    def enter() -> None:
        while not ended.is_set():
            house.client.enter(uid, f"/write {len(texts)}")
            texts.append(str(len(texts)))

    entering = Thread(target=enter)
    entering.start()
    try:
        yield texts
    finally:
        ended.set()
        entering.join()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_worker_stops_in_time_under_load(signals: int, tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)], limits={"grace_s": GRACE_S})
        with load(house, uid) as texts:
            wait_for(lambda: len(house.contents(uid)) > 100, "the load is on")
            took_s = end_in_time(worker, signals=signals)
            assert house.client.unacknowledged(uid) == 0
            time.sleep(0.1)

        house.start_worker()
        assert_promises(house, uid, texts)
        tell(
            22,
            f"SIGTERM to the worker under load, {'once' if signals == 1 else 'twice'}",
            ended_within_s=took_s,
            messages=len(texts),
        )


@pytest.mark.parametrize("way", ["gone", "silent"])
def test_a_worker_stops_in_time_without_a_bus(way: str, tell: Tell) -> None:
    uid = make_uid()
    with House() as house, Proxy(house.client.socket, house.folder / "proxy.sock") as proxy:
        worker = house.start_worker(
            bundles=[make_bundle(uid)], limits={"grace_s": GRACE_S}, bus=proxy.socket
        )
        with load(house, uid) as texts:
            wait_for(lambda: len(house.contents(uid)) > 100, "the load is on")
            if way == "silent":
                proxy.hold()
        if way == "gone":
            house.kill_server()
            wait_for(lambda: "bus_lost" in worker.said, "it has noticed")
        took_s = end_in_time(worker, signals=2)

        proxy.let_go()
        house.server.start()
        house.start_worker()
        assert_promises(house, uid, texts)
        tell(22, f"SIGTERM to the worker while the bus is {way}", ended_within_s=took_s)


def is_gone(pid: int) -> bool:
    """Return whether there is no such process, or only a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@contextmanager
def posts(up: Everything) -> Iterator[dict[str, int]]:
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
def test_up_stops_in_time_and_leaves_no_server_behind(fault: str, tell: Tell) -> None:
    with House() as house:
        up = Everything(house, WORKER__GRACE_S=str(GRACE_S))
        with posts(up) as answers:
            wait_for(lambda: len(answers) > 100, "the load is on")
            if fault != "under load":
                os.kill(up.servers[-1], signal.SIGKILL)
                up.process.await_event("embedded_server_gone")
            took_s = end_in_time(up.process, signals=2)

        assert [pid for pid in up.servers if not is_gone(pid)] == []
        taken = [text for text, status in answers.items() if status == 202]
        again = Everything(house, WORKER__GRACE_S=str(GRACE_S))
        wait_for(lambda: len(house.contents(up.uid)) >= len(taken), "all that was taken is there")
        assert again.process.stop() == 0
        assert_same([text for text in house.contents(up.uid) if text in taken], taken)
        tell(22, f"SIGTERM to all in one, {fault}", ended_within_s=took_s, taken=len(taken))
