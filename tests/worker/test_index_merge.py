"""A worker merges full-text segments while it is idle."""

from contextlib import closing

from tests.memory.builders import make_store, write_all
from tests.support.bundles import make_bundle, make_uid
from tests.support.house import House
from tests.support.waiting import wait_for

SEGMENTS = "SELECT count(DISTINCT segid) FROM records_fts_idx"
MANY = 12


def segments(house: House, uid: str) -> int:
    return int(house.rows(uid, SEGMENTS)[0][0])


def found(house: House, uid: str) -> int:
    return len(house.client.answer(uid, "/search tea"))


def test_segments_are_merged_while_the_worker_is_idle(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    for number in range(MANY):
        house.client.answer(uid, f"/write tea number {number}")

    wait_for(lambda: segments(house, uid) <= 4, "the index is merged")

    assert found(house, uid) == MANY


def test_segments_of_an_earlier_worker_are_merged_at_the_start() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)]).stop()
        with closing(make_store(house.root, f"instances/{uid}/memories")) as store:
            for number in range(MANY):
                write_all(store, f"tea number {number}")
        assert segments(house, uid) > 4

        house.start_worker()

        wait_for(lambda: segments(house, uid) == 1, "the index is merged")
        assert found(house, uid) == MANY
