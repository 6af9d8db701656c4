"""A quiet worker merges the full-text indexes of its stores, and a busy one is not delayed by
it.
"""

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


def test_what_was_written_one_by_one_is_merged_when_it_is_quiet(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    for number in range(MANY):
        house.client.answer(uid, f"/write tea number {number}")

    wait_for(lambda: segments(house, uid) <= 4, "the index is merged")

    assert found(house, uid) == MANY


def test_what_an_earlier_worker_left_is_merged_before_anything_is_written() -> None:
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
