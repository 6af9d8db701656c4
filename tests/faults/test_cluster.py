"""Row 31: nodes of a cluster fail over, its slots move, and workers are killed, under load."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.http_load import HttpLoad
from tests.support.replicated_bus import ClusterBus


class Amounts(NamedTuple):
    """How many faults are caused, and pipelines."""

    failovers: int
    moved_slots: int
    killed_workers: int
    pipelines: int
    cells: int


SHORT, LONG = Amounts(1, 1, 1, 6, 4), Amounts(5, 3, 20, 60, 16)
AMOUNTS = [SHORT, pytest.param(LONG, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[ClusterBus]:
    with ClusterBus(tmp_path / "bus") as bus:
        yield bus


def kill_worker(host: Host) -> None:
    worker = next(one for one in host.processes[1:] if one.lives)
    worker.kill()
    host.processes.remove(worker)
    host.start_worker()


def fail_over(bus: ClusterBus) -> None:
    bus.restore(bus.kill_owner())


def faults_of(bus: ClusterBus, host: Host, amounts: Amounts) -> list[Callable[[], None]]:
    faults = [lambda: fail_over(bus)] * amounts.failovers + [bus.move_keys] * amounts.moved_slots
    return faults + [lambda: kill_worker(host)] * amounts.killed_workers


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_failovers_and_moved_slots_of_a_cluster_apply_nothing_twice(
    amounts: Amounts, bus: ClusterBus, tmp_path: Path, record_figures: RecordFigures
) -> None:
    uids, moments = [make_uid() for _ in range(amounts.pipelines)], random.Random(31)
    settings = {"BUS__URL": bus.url, "BUS__CELLS": str(amounts.cells), "WORKER__LEASE_S": "2"}
    with Host(tmp_path / "host", **settings) as host:
        host.start_web()
        for _ in range(4):
            host.start_worker()
        for uid in uids:
            host.deploy(make_bundle(uid))
        faults = faults_of(bus, host, amounts)
        moments.shuffle(faults)
        with HttpLoad(host, uid=uids, rate=100) as load:
            for fault in faults:
                time.sleep(moments.uniform(0.2, 0.8))
                fault()
                load.await_accepted(50)

        lost = sum(count_missing(host, uid, load.accepted_of(uid)) for uid in uids)
        contents = Counter((uid, text) for uid in uids for text in host.contents(uid))
        assert set(contents.values()) == {1}
        assert all(process.lives for process in host.processes)
        record_figures(
            31,
            "cluster of three primaries and replicas",
            **amounts._asdict(),
            messages=len(load.accepted),
            lost=lost,
            refused_at_most_s=load.longest_refusal_s,
        )


def count_missing(host: Host, uid: str, accepted: list[str]) -> int:
    """Wait for all accepted messages, and return how many did not come: no replica had them."""
    host.await_count(uid, 0)
    deadline = time.monotonic() + 15
    while (lost := len(set(accepted) - set(host.contents(uid)))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return lost
