"""Row 19: a power cut. Unsynced writes are lost; acknowledged writes are kept."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import CHECKOUT, ChildProcess
from tests.support.power import Power
from tests.support.system import TestSystem

WRITER = """
import os, signal, sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.pragma("journal_mode", "wal")
connection.execute("CREATE TABLE t(x)")
connection.execute("INSERT INTO t VALUES ('synced')")
connection.execute("PRAGMA synchronous = OFF")
connection.execute("INSERT INTO t VALUES ('not synced')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def said(system: TestSystem, uid: str) -> list[str]:
    """Return the texts whose results were sent."""
    return [
        one.text.removeprefix("/write ")
        for one in system.client.log(uid)
        if one.text.startswith("/write ")
    ]


def start_worker(system: TestSystem, power: Power, die_at: int = 0) -> ChildProcess:
    """Start a worker whose writes are recorded."""
    return system.start_worker(ready=False, environment=power.environment(die_at))


def test_the_power_cut_library_loses_only_unsynced_writes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    power = Power(tmp_path / "power", root)
    command = [sys.executable, "-c", WRITER, str(root / "a.db")]

    ended = subprocess.run(
        command, env=os.environ | power.environment(), cwd=CHECKOUT, timeout=120, check=False
    )
    undone = power.cut()

    with closing(sqlite3.connect(root / "a.db")) as connection:
        found = connection.execute("SELECT x FROM t").fetchall()
    assert (ended.returncode, found) == (-signal.SIGKILL, [("synced",)])
    assert undone > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cuts", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_acknowledged_effects_survive_power_cuts_before_a_sync(
    cuts: int, record_figures: RecordFigures
) -> None:
    uid, entered, undone = make_uid(), 0, 0
    with TestSystem() as system:
        power = Power(system.folder / "power", system.root)
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        for cut in range(cuts):
            worker = start_worker(system, power, die_at=1 + cut % 12)
            for _ in range(40):
                system.client.enter_together(
                    uid, [f"/write {number}" for number in range(entered, entered + 5)]
                )
                entered += 5
                time.sleep(0.005)
            if worker.lives_until(lambda: not system.client.redis.xlen(f"pipeline:{{{uid}}}:in")):
                worker.kill()
            left = {text for _, text in waiting(system, uid)}
            undone += power.cut()
            kept = system.contents(uid)
            assert [
                text for text in map(str, range(entered)) if text not in left and text not in kept
            ] == []

        system.start_worker()
        system.client.await_quiet(uid, 30)

        record_figures(
            19,
            "unsynced writes dropped",
            power_cuts=cuts,
            writes_dropped=undone,
            messages=entered,
            missing=0,
        )
        assert system.contents(uid) == [str(number) for number in range(entered)]
        assert len(said(system, uid)) >= min(
            entered, 3000
        )  # a log keeps 10,000 messages, here three per write
        assert (system.dead_letters(uid), system.rows(uid, "PRAGMA integrity_check")) == (
            [],
            [("ok",)],
        )
        assert undone > 0


def waiting(system: TestSystem, uid: str) -> list[tuple[str, str]]:
    """Return (ID, text) of the unacknowledged entries."""
    entries = system.client.redis.xrange(f"pipeline:{{{uid}}}:in")
    return [
        (ident.decode(), fields[b"data"].decode().partition("/write ")[2].partition('"')[0])
        for ident, fields in entries
    ]


def test_an_acknowledged_dead_letter_survives_a_power_cut() -> None:
    uid = make_uid()
    with TestSystem() as system:
        power = Power(system.folder / "power", system.root)
        system.start_worker(bundles=[make_bundle(uid)]).stop()
        worker = start_worker(system, power)
        worker.await_ready()

        idents = [system.client.enter_raw(uid, b"broken") for _ in range(20)]
        system.client.await_quiet(uid)
        worker.kill()
        power.cut()

        assert [letter.id for letter in system.dead_letters(uid)] == idents
