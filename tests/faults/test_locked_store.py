"""Row 17: another program locks a store. Its pipeline waits, other pipelines do not, and no
message is given up.
"""

import os
import statistics
import time

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.locks import locked
from tests.support.probe import Probe
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S
from tests.support.worker_reports import await_paused, await_report, worker_reports


@pytest.mark.parametrize("locked_s", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_a_locked_store_delays_only_its_pipeline(
    locked_s: float, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        probe, lags = Probe(system), []
        system.client.answer(uid, "/write before")

        with locked(system.store_file(uid)):
            until = time.monotonic() + locked_s
            system.client.enter_together(uid, [f"/write {number}" for number in range(500)])
            reason = await_paused(
                system, uid, f"is locked by another program (process {os.getpid()}, "
            )
            while time.monotonic() < until:
                slowest_s = probe.slowest_s(lambda: True)
                lags += [worker["loop_lag_ms"] for worker in worker_reports(system)]
            assert system.client.redis.xlen(f"pipeline:{{{uid}}}:in") == 500
        released = time.monotonic()
        system.client.await_quiet(uid)
        done_after_s = time.monotonic() - released

        record_figures(
            17,
            f"a store locked from outside for {locked_s} s",
            waited=500,
            median_loop_lag_ms=statistics.median(lags),
            highest_ms=max(lags),
            others_answered_within_ms=round(1000 * slowest_s),
            done_after_s=done_after_s,
        )
        assert system.contents(uid) == ["before", *[str(number) for number in range(500)]]
        assert (system.dead_letters(uid), system.client.unacknowledged(uid)) == ([], 0)
        assert "it is retried" in reason
        assert statistics.median(lags) < 500
        assert done_after_s < 10 + LATE_S


def test_a_lock_on_an_idle_store_is_reported_and_so_is_its_end() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")

        with locked(system.store_file(uid)):
            await_paused(system, uid, "is locked by another program")

        await_report(system, uid, lambda report: not report["paused"], "it is not paused any more")
        assert "guid" in system.client.answer(uid, "/write after")
