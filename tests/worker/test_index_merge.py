"""A worker merges full-text segments while it is idle."""

from contextlib import closing

from tests.memory.builders import make_store, write_all
from tests.support.bundles import make_bundle, make_uid
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

SEGMENTS = "SELECT count(DISTINCT segid) FROM records_fts_idx"
MANY = 12


def segments(system: TestSystem, uid: str) -> int:
    return int(system.rows(uid, SEGMENTS)[0][0])


def found(system: TestSystem, uid: str) -> int:
    return len(system.client.answer(uid, "/search tea"))


def test_segments_are_merged_while_the_worker_is_idle(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    for number in range(MANY):
        system.client.answer(uid, f"/write tea number {number}")

    wait_for(lambda: segments(system, uid) <= 4, "the index is merged")

    assert found(system, uid) == MANY


def test_segments_of_an_earlier_worker_are_merged_at_the_start() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        with closing(make_store(system.root, f"instances/{uid}/memories")) as store:
            for number in range(MANY):
                write_all(store, f"tea number {number}")
        assert segments(system, uid) > 4

        system.start_worker()

        wait_for(lambda: segments(system, uid) == 1, "the index is merged")
        assert found(system, uid) == MANY
