"""Row 3: the server loses its data: FLUSHALL, a destroyed consumer group, an empty restart."""

import shutil
import time
from collections.abc import Callable

import pytest

from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.house import House
from tests.support.served import Served
from tests.support.tiers import first_always
from tests.support.waiting import wait_for

WITHIN_S = 5
IDLE_S, MOST_COMMANDS = 1.0, 60  # the most commands of an idle worker in that time


def flush_all(house: House, uid: str) -> None:
    house.client.redis.flushall()


def destroy_group(house: House, uid: str) -> None:
    house.client.redis.xgroup_destroy(input_of(uid), "owner")


def empty_server(house: House, uid: str) -> None:
    """Replace the server's data with an empty folder."""
    house.kill_server()
    for path in (house.folder / "bus").glob("appendonly*"):
        shutil.rmtree(path)
    house.server.start()


def commands(house: House) -> int:
    return int(house.client.redis.info("stats")["total_commands_processed"])


def assert_calm(house: House) -> None:
    """Check that an idle worker sends few commands."""
    before = commands(house)
    time.sleep(IDLE_S)
    assert commands(house) - before < MOST_COMMANDS


def groups_recreated(served: Served) -> int:
    return sum(worker["groups_recreated"] for worker in served.get("/status").json["workers"])


@pytest.mark.parametrize(
    ("fault", "forget"),
    first_always(
        ("the server back empty", empty_server),
        ("FLUSHALL", flush_all),
        ("the group destroyed", destroy_group),
    ),
)
def test_a_server_that_lost_its_data_is_set_up_again(
    fault: str, forget: Callable[[House, str], None], tell: Tell
) -> None:
    uid, other = make_uid(), make_uid()
    with Served(worker=False) as served:
        house = served.house
        worker = house.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        house.client.answer(uid, "/write before")

        forget(house, uid)
        began = time.monotonic()
        house.client.await_served(uid, WITHIN_S)
        house.client.await_served(other, WITHIN_S)
        took_s = time.monotonic() - began

        assert_calm(house)
        assert "guid" in house.client.answer(uid, "/write after")
        assert "guid" in house.client.answer(other, "/write after")
        assert_promises(house, uid, ["before", "after"], url=served.url)
        assert_promises(house, other, ["after"])
        count = wait_for(lambda: groups_recreated(served), "it is counted")
        tell(3, fault, counted=count, made_again_within_s=took_s)
        assert worker.stop() == 0


def test_repeated_destruction_of_the_group_loses_and_duplicates_nothing(
    tell: Tell,
) -> None:
    uid, times = make_uid(), 0
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        with Feeder(house, uid, 3_000, pause_s=0.05) as feeder:
            while feeder.is_alive():
                times += house.client.redis.xgroup_destroy(input_of(uid), "owner")
                time.sleep(0.1)
                wait_for(
                    lambda: house.client.redis.xinfo_groups(input_of(uid)),
                    "the group is there again",
                    WITHIN_S,
                )

        assert_promises(house, uid, feeder.texts, ordered=False)
        tell(3, "the group destroyed under load", times=times, messages=3_000, effects=3_000)
        assert worker.stop() == 0
