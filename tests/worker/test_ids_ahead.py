"""A client gives its entry an id from the future: what comes later has the right time, and what was
done stays known."""

import time

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for

LAST = "18446744073709551615-18446744073709551615"
IN_MICROSECONDS = "1795442969996000-0"
BEYOND_SQLITE = "9223372036854775808-0"


def ms_of(ident: str) -> int:
    return int(ident.partition("-")[0])


@pytest.fixture
def uid(house: House) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    return uid


@pytest.mark.parametrize("ident", [IN_MICROSECONDS, BEYOND_SQLITE, LAST])
def test_the_input_begins_anew_once_it_is_done(house: House, uid: str, ident: str) -> None:
    house.client.ask(uid, "/write before")
    house.client.enter_raw(uid, make_envelope("/write ahead"), ident=ident)
    wait_for(lambda: not house.client.redis.xlen(input_of(uid)), "it is done")

    later = house.client.enter(uid, "/write later")
    house.client.await_quiet(uid)

    assert abs(ms_of(later) - time.time() * 1000) < 3_600_000
    assert house.contents(uid) == ["before", "ahead", "later"]
    assert not house.dead_letters(uid)


def test_a_little_ahead_is_as_clocks_are(house: House, uid: str) -> None:
    ahead = int(time.time() * 1000) + 3_600_000
    house.client.enter_raw(uid, make_envelope("/write ahead"), ident=f"{ahead}-0")
    house.client.await_quiet(uid)

    assert ms_of(house.client.enter(uid, "/write later")) == ahead


def test_it_ends_no_producers_ids(house: House, uid: str) -> None:
    first = house.client.enter(uid, "/write tea", id="order-1")
    house.client.await_quiet(uid)
    house.client.enter_raw(uid, make_envelope("/write ahead"), ident=IN_MICROSECONDS, id="order-2")
    house.client.await_quiet(uid)

    again = house.client.enter(uid, "/write tea", id="order-1")
    house.client.await_quiet(uid)

    assert again != first
    assert house.contents(uid) == ["tea", "ahead"]


def test_an_input_that_was_left_so_begins_anew_with_its_owner() -> None:
    uid = make_uid()
    with House() as house:
        house.client.redis.xadd(input_of(uid), {"tea": "green"}, id=LAST)
        house.client.redis.xdel(input_of(uid), LAST)

        house.start_worker(bundles=[make_bundle(uid)])

        assert "guid" in house.client.answer(uid, "/write tea")
