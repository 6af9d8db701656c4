"""Row 18, read errors: a store that cannot be read is not marked as damaged, and resumes when it
can be read.
"""

import sys
from pathlib import Path

import pytest

from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.damage import log_of
from tests.support.failing_disk import FailingDisk
from tests.support.house import House
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


def test_an_unreadable_store_is_not_marked_damaged_and_resumes(
    tmp_path: Path,
) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with House() as house:
        first = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write before")
        first.stop()
        worker = house.start_worker(environment=disk.environment)
        house.client.await_served(uid)
        disk.fail(f"{uid}/memories.db")
        house.client.enter_together(uid, [f"/write {number}" for number in range(20)])
        wait_for(
            lambda: "pipeline_paused" in worker.said and "check its disk" in worker.said,
            "it pauses, and names the disk",
        )

        assert house.client.redis.xlen(input_of(uid)) == 20, "something was acknowledged"
        assert not list(house.root.rglob("*.damaged")) and "salvage" not in worker.said
        disk.fail()
        assert_promises(house, uid, ["before", *map(str, range(20))])
        assert worker.stop() == 0


def test_a_store_unreadable_at_start_is_not_marked_damaged(tmp_path: Path) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with House() as house:
        before = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write before")
        before.kill()
        disk.fail(f"{uid}/memories.db-wal")
        worker = house.start_worker(ready=False, environment=disk.environment)
        wait_for(lambda: "pipeline_paused" in worker.said, "it pauses")

        assert not list(house.root.rglob("*.damaged")) and "salvage" not in worker.said
        disk.fail()
        house.client.enter(uid, "/write after")
        assert_promises(house, uid, ["before", "after"])


def test_a_worker_serves_on_without_a_readable_system_db(
    tmp_path: Path,
) -> None:
    uid, disk = make_uid(), FailingDisk(tmp_path)
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)], environment=disk.environment)
        house.client.answer(uid, "/write before")
        disk.fail("/system.db")
        house.announce()
        wait_for(
            lambda: "catalog_busy" in worker.said or not worker.lives,
            "it looks for other bundles",
        )
        house.client.answer(uid, "/write meanwhile")
        ident = house.client.enter_raw(uid, b"broken")
        wait_for(lambda: "pipeline_paused" in worker.said, "a letter has to wait")
        disk.fail()

        assert house.await_dead_letter(uid, ident).id == ident
        assert_promises(house, uid, ["before", "meanwhile"], dead=1)
        assert worker.stop() == 0


def test_a_worker_without_its_log_file_acknowledges_nothing() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write before")
        log_of(house.store_file(uid)).unlink()
        house.client.enter_together(uid, [f"/write {number}" for number in range(20)])
        wait_for(
            lambda: "stop the worker normally" in worker.said, "it pauses, and says what to do"
        )

        assert house.client.redis.xlen(input_of(uid)) == 20, "something was acknowledged"
        assert worker.stop() == 0
        house.start_worker()
        assert_promises(house, uid, ["before", *map(str, range(20))])
