"""Row 3: the server loses its data: FLUSHALL, a destroyed consumer group, an empty restart."""

import shutil
import time
from collections.abc import Callable

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

WITHIN_S = 5
IDLE_S, MOST_COMMANDS = 1.0, 60  # the most commands of an idle worker in that time


def flush_all(system: TestSystem, uid: str) -> None:
    system.client.redis.flushall()


def destroy_group(system: TestSystem, uid: str) -> None:
    system.client.redis.xgroup_destroy(input_of(uid), "owner")


def empty_server(system: TestSystem, uid: str) -> None:
    """Replace the server's data with an empty folder."""
    system.kill_server()
    for path in (system.folder / "bus").glob("appendonly*"):
        shutil.rmtree(path)
    system.server.start()


def commands(system: TestSystem) -> int:
    return int(system.client.redis.info("stats")["total_commands_processed"])


def assert_calm(system: TestSystem) -> None:
    """Check that an idle worker sends few commands."""
    before = commands(system)
    time.sleep(IDLE_S)
    assert commands(system) - before < MOST_COMMANDS


def groups_recreated(web_system: WebSystem) -> int:
    return sum(worker["groups_recreated"] for worker in web_system.get("/status").json["workers"])


@pytest.mark.parametrize(
    ("fault", "forget"),
    first_always(
        ("the server back empty", empty_server),
        ("FLUSHALL", flush_all),
        ("the group destroyed", destroy_group),
    ),
)
def test_a_server_that_lost_its_data_is_set_up_again(
    fault: str, forget: Callable[[TestSystem, str], None], record_figures: RecordFigures
) -> None:
    uid, other = make_uid(), make_uid()
    with WebSystem(worker=False) as web_system:
        system = web_system.system
        worker = system.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        system.client.answer(uid, "/write before")

        forget(system, uid)
        began = time.monotonic()
        system.client.await_served(uid, WITHIN_S)
        system.client.await_served(other, WITHIN_S)
        took_s = time.monotonic() - began

        assert_calm(system)
        assert "guid" in system.client.answer(uid, "/write after")
        assert "guid" in system.client.answer(other, "/write after")
        assert_invariants(system, uid, ["before", "after"], url=web_system.url)
        assert_invariants(system, other, ["after"])
        count = wait_for(lambda: groups_recreated(web_system), "it is counted")
        record_figures(3, fault, counted=count, made_again_within_s=took_s)
        assert worker.stop() == 0


def test_repeated_destruction_of_the_group_loses_and_duplicates_nothing(
    record_figures: RecordFigures,
) -> None:
    uid, times = make_uid(), 0
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        with WriteLoad(system, uid, 3_000, pause_s=0.05) as load:
            while load.is_alive():
                times += system.client.redis.xgroup_destroy(input_of(uid), "owner")
                time.sleep(0.1)
                wait_for(
                    lambda: system.client.redis.xinfo_groups(input_of(uid)),
                    "the group is there again",
                    WITHIN_S,
                )

        assert_invariants(system, uid, load.texts, ordered=False)
        record_figures(
            3, "the group destroyed under load", times=times, messages=3_000, effects=3_000
        )
        assert worker.stop() == 0
