"""Row 13: the worker's clock is set an hour forward and back. Leases and webhook tolerances are
tested elsewhere.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from memrelay.memory.engine.timestamps import format_time
from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_commands, make_memory, make_relay, make_uid
from tests.support.calls import call
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

HOUR_S, WRITES = 3600, 1_500
SHIFTS_S = HOUR_S, 0, -HOUR_S, HOUR_S, 0
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")


class Clock:
    """A wall clock that a test sets for the processes in its environment."""

    def __init__(self, folder: Path) -> None:
        """Compile the preloaded library."""
        self._shift, library = folder / "shift", folder / "shifted_clock.so"
        source = Path(__file__).with_name("shifted_clock.c")
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source],
            check=True,
        )
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(self._shift)}
        self.set(0)

    def set(self, shift_s: int) -> None:
        """Shift the clock by so many seconds."""
        draft = self._shift.with_suffix(".new")
        draft.write_text(str(shift_s))
        draft.rename(self._shift)


def ahead_s(system: TestSystem, uid: str) -> float:
    """Return by how many seconds the worker's clock is ahead, according to the time of a dead
    letter.
    """
    now_s = time.time()
    letter = system.await_dead_letter(uid, system.client.enter_raw(uid, b"broken"))
    return letter.failed_at / 1000 - now_s


def answers(system: TestSystem, uid: str) -> int:
    return sum(said.sender == "memory_write" for said in system.client.log(uid))


def test_a_worker_with_a_fast_clock_deletes_no_live_record(
    tmp_path: Path,
) -> None:
    uid, clock = make_uid(), Clock(tmp_path)
    agents = (
        *make_commands(),
        make_relay("brief", r"^/brief\s+(.*)"),
        make_relay("moment", r"^/moment\s+(.*)"),
        *[
            make_memory("write", senders=f"dispatch_{name}", alias=f"{name}_one", ttl_s=ttl_s)
            for name, ttl_s in (("brief", HOUR_S), ("moment", 1))
        ],
    )
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, *agents)], environment=clock.environment)
        system.client.answer(uid, "/brief an hour")
        clock.set(2 * HOUR_S)
        system.client.answer(uid, "/moment a second")
        wait_for(
            lambda: "a second" not in system.contents(uid), "what is over by the bus is deleted"
        )

        assert system.contents(uid) == ["an hour"]


@pytest.mark.parametrize("shift_s", [2 * HOUR_S, -2 * HOUR_S])
def test_reads_judge_expiry_by_the_clock_of_the_bus(tmp_path: Path, shift_s: int) -> None:
    uid, clock = make_uid(), Clock(tmp_path)
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)], environment=clock.environment)
        clock.set(shift_s)
        now_s = time.time()
        for content, left_s in (("an hour", HOUR_S), ("a moment", 1)):
            given = {"content": content, "expires_at": format_time(int((now_s + left_s) * 1000))}
            call(system, uid, "records.create", given)
        with locked(system.store_file(uid)):  # so that nothing is deleted
            time.sleep(1.1)
            listed = call(system, uid, "records.list")["items"]
            found = call(system, uid, "records.search", {"query": "hour"})["items"]

        assert (
            [one["content"] for one in listed]
            == [one["record"]["content"] for one in found]
            == ["an hour"]
        )


def test_a_clock_change_affects_only_reported_times(
    tmp_path: Path, record_figures: RecordFigures
) -> None:
    uid, broken, clock = make_uid(), make_uid(), Clock(tmp_path)
    with WebSystem(worker=False, secrets=clock.environment) as web_system:
        system, began_ms = web_system.system, time.time() * 1000
        worker = system.start_worker(
            bundles=[make_bundle(uid), make_bundle(broken)], environment=clock.environment
        )
        with WriteLoad(system, uid, WRITES, pause_s=0.15) as load:
            for shift_s in SHIFTS_S:
                before = len(system.contents(uid))
                clock.set(shift_s)
                assert abs(ahead_s(system, broken) - shift_s) < 60, "the clock does not lie"
                wait_for(lambda before=before: len(system.contents(uid)) > before, "it goes on")

        assert_invariants(system, uid, load.texts, url=web_system.url)
        assert answers(system, uid) == WRITES, "something ran again"
        assert "bus_lost" not in worker.output
        ((first, last),) = system.rows(uid, "SELECT min(created_at), max(created_at) FROM records")
        assert began_ms - 1000 <= first <= last <= time.time() * 1000 + 1000, (
            "records have the server's time"
        )
        assert [one["owner"] for one in web_system.get("/status").json["pipelines"]] != [None, None]
        record_figures(
            13,
            "the clock of worker and web server set an hour forward and back",
            times=len(SHIFTS_S),
            messages=WRITES,
            effects=WRITES,
            answers=WRITES,
        )
        assert worker.stop() == 0
