"""What somebody else read by the owner's group, or moved it over, is done while the worker goes
on."""

import time
from pathlib import Path

import pytest

from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for

LAST = "18446744073709551615-18446744073709551615"


@pytest.fixture
def uid(house: House) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    house.client.ask(uid, "/write before")
    return uid


def take_as_a_stranger(house: House, uid: str, *texts: str) -> None:
    """Enters them and reads them by the owner's group, in one step."""
    with house.client.redis.pipeline(transaction=True) as pipe:
        for text in texts:
            pipe.xadd(input_of(uid), {"swarm": "chat", "data": make_envelope(text)})
        pipe.xreadgroup("owner", "stranger", {input_of(uid): ">"})
        pipe.execute()


def last_read(house: House, uid: str) -> str:
    (group,) = house.client.redis.xinfo_groups(input_of(uid))
    return group["last-delivered-id"].decode()


def test_what_another_consumer_took_is_done_and_told(house: House, uid: str) -> None:
    take_as_a_stranger(house, uid, "/write one", "/write two")
    house.client.await_quiet(uid)

    assert house.contents(uid) == ["before", "one", "two"]
    wait_for(lambda: "entries_overlooked" in house.workers[-1].said, "the worker tells of it")


def test_what_waits_its_turn_is_not_done_twice(house: House, uid: str) -> None:
    for number in range(30):
        take_as_a_stranger(house, uid, f"/write taken {number}")
        house.client.enter(uid, f"/write {number}")
        time.sleep(0.1)
    house.client.await_quiet(uid)

    assert sorted(house.contents(uid)) == sorted(
        [
            "before",
            *[f"{number}" for number in range(30)],
            *[f"taken {number}" for number in range(30)],
        ]
    )
    assert not house.dead_letters(uid)


def test_what_waits_for_room_is_not_overlooked(tmp_path: Path) -> None:
    uid, many = (
        make_uid(),
        70,
    )  # of a megabyte each: more than may wait to be tried again before anything new is taken
    keeper = make_agent("keeper", "test_waits", {"memory_id": STORE}, hears="User")
    with House() as house:
        worker = house.start_worker(
            limits={"first_pause_s": 8, "longest_pause_s": 8}, bundles=[make_bundle(uid, keeper)]
        )
        for number in range(many):
            house.client.enter(
                uid, make_waiting(f"{number} {'x' * 1_000_000}", tmp_path / "gate", many)
            )
        wait_for(
            lambda: len(house.rows(uid, "SELECT id FROM pending", "memories")) == many,
            "all are put off",
        )
        for number in range(many, many + 3):
            house.client.enter(uid, f"{number} soon")
        wait_for(
            lambda: not house.rows(uid, "SELECT id FROM pending", "memories"),
            "all that was put off is done",
        )
        house.client.await_quiet(uid)

        assert sorted(int(text.split(" ")[0]) for text in house.contents(uid)) == [*range(many + 3)]
        assert "entries_overlooked" not in worker.said


def test_a_group_that_was_moved_into_the_future_reads_again(house: House, uid: str) -> None:
    house.client.redis.xgroup_setid(input_of(uid), "owner", LAST)
    house.client.enter(uid, "/write one")
    house.client.await_quiet(uid)
    wait_for(lambda: last_read(house, uid) != LAST, "it is moved back")

    house.client.ask(uid, "/write two")

    assert house.contents(uid) == ["before", "one", "two"]


def test_an_input_whose_last_id_was_set_takes_messages_again(house: House, uid: str) -> None:
    house.client.redis.execute_command("XSETID", input_of(uid), LAST)
    wait_for(
        lambda: (
            house.client.redis.xinfo_stream(input_of(uid))["last-generated-id"] != LAST.encode()
        ),
        "it begins anew",
    )

    house.client.ask(uid, "/write one")

    assert house.contents(uid) == ["before", "one"]
