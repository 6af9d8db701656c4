"""Row 18, read errors: a store that cannot be read is not marked as damaged, and resumes when it
can be read.
"""

import sys
from pathlib import Path

import pytest

from tests.faults.invariants import assert_invariants
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.damage import log_of
from tests.support.failing_disk import FailingDisk
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


def test_an_unreadable_store_is_not_marked_damaged_and_resumes(
    tmp_path: Path,
) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with TestSystem() as system:
        first = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        first.stop()
        worker = system.start_worker(environment=disk.environment)
        system.client.await_served(uid)
        disk.fail(f"{uid}/memories.db")
        system.client.enter_together(uid, [f"/write {number}" for number in range(20)])
        wait_for(
            lambda: "pipeline_paused" in worker.output and "check its disk" in worker.output,
            "it pauses, and names the disk",
        )

        assert system.client.redis.xlen(input_of(uid)) == 20, "something was acknowledged"
        assert not list(system.root.rglob("*.damaged")) and "salvage" not in worker.output
        disk.fail()
        assert_invariants(system, uid, ["before", *map(str, range(20))])
        assert worker.stop() == 0


def test_a_store_unreadable_at_start_is_not_marked_damaged(tmp_path: Path) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with TestSystem() as system:
        before = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        before.kill()
        disk.fail(f"{uid}/memories.db-wal")
        worker = system.start_worker(ready=False, environment=disk.environment)
        wait_for(lambda: "pipeline_paused" in worker.output, "it pauses")

        assert not list(system.root.rglob("*.damaged")) and "salvage" not in worker.output
        disk.fail()
        system.client.enter(uid, "/write after")
        assert_invariants(system, uid, ["before", "after"])


def test_a_worker_serves_on_without_a_readable_system_db(
    tmp_path: Path,
) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)], environment=disk.environment)
        system.client.answer(uid, "/write before")
        disk.fail("/system.db")
        system.announce()
        wait_for(
            lambda: "catalog_busy" in worker.output or not worker.lives,
            "it looks for other bundles",
        )
        system.client.answer(uid, "/write meanwhile")
        ident = system.client.enter_raw(uid, b"broken")
        wait_for(lambda: "pipeline_paused" in worker.output, "a letter has to wait")
        disk.fail()

        assert system.await_dead_letter(uid, ident).id == ident
        assert_invariants(system, uid, ["before", "meanwhile"], dead=1)
        assert worker.stop() == 0


def test_a_worker_without_its_log_file_acknowledges_nothing() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        log_of(system.store_file(uid)).unlink()
        system.client.enter_together(uid, [f"/write {number}" for number in range(20)])
        wait_for(
            lambda: "stop the worker normally" in worker.output, "it pauses, and says what to do"
        )

        assert system.client.redis.xlen(input_of(uid)) == 20, "something was acknowledged"
        assert worker.stop() == 0
        system.start_worker()
        assert_invariants(system, uid, ["before", *map(str, range(20))])
