"""Row 18: changed bytes in pages, in the text of a record and in the index; a truncated file;
half of the log lost.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memrelay.memory.engine.damage import note_of
from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.damage import (
    PAGE,
    as_after_a_crash,
    fill,
    flip_bytes,
    flip_index,
    log_of,
    replace_text,
)
from tests.support.probe import Probe
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import LATE_S, wait_for
from tests.support.worker_reports import await_paused, type_command

Damage = Callable[[Path], None]


def pages_flipped(file: Path) -> None:
    middle = file.stat().st_size // 2 // PAGE * PAGE
    flip_bytes(file, middle, middle + 20 * PAGE, 2000)


def header_flipped(file: Path) -> None:
    flip_bytes(file, 0, 100, 50)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def crashed_system(system: TestSystem, uid: str) -> Path:
    """Return a store whose worker was killed."""
    system.start_worker(bundles=[make_bundle(uid)])
    fill(system, uid)
    system.workers[-1].kill()
    as_after_a_crash(system.store_file(uid))
    return system.store_file(uid)


@pytest.mark.parametrize("damage", first_always(pages_flipped, header_flipped, cut_short))
def test_structural_damage_pauses_only_its_pipeline(
    damage: Damage, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        file = crashed_system(system, uid)
        damage(file)
        before = file.read_bytes()

        worker = system.start_worker()
        ident = system.client.enter(uid, "/write after")
        reason = await_paused(system, uid, "is damaged")

        assert "memrelay restore" in reason and "memrelay salvage" in reason
        assert note_of(file).read_text().count("memrelay restore") == 1
        slowest_s = Probe(system).slowest_s(lambda: True)
        record_figures(
            18,
            damage.__name__.replace("_", " "),
            found="at open",
            others_answered_within_s=slowest_s,
        )
        assert slowest_s < 2 + LATE_S
        assert (worker.lives, file.read_bytes(), system.dead_letters(uid)) == (True, before, [])
        assert system.client.redis.xrange(f"pipeline:{{{uid}}}:in", ident, ident)


def test_a_store_with_a_wrong_schema_version_pauses_and_is_salvaged() -> None:
    uid, other = make_uid(), make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        system.client.answer(uid, "/write before")
        system.workers[-1].stop()
        system.rows(
            uid, "PRAGMA user_version = 8"
        )  # the following migration creates tables that exist already

        worker = system.start_worker()
        system.client.enter(uid, "/write after")
        reason = await_paused(system, uid, "tables that do not match its schema version")
        system.client.answer(other, "/write not disturbed")
        worker.stop()
        salvaged = type_command(system, "salvage", uid, "--force")
        system.start_worker()
        system.client.await_quiet(uid)

        assert "memrelay salvage" in reason and salvaged.returncode == 0, salvaged.stderr
        assert (worker.lives, system.contents(uid)) == (False, ["before", "after"])


def test_a_damaged_store_stays_paused_after_a_restart_and_is_not_recreated() -> None:
    uid = make_uid()
    with TestSystem() as system:
        file = crashed_system(system, uid)
        pages_flipped(file)
        system.start_worker()
        await_paused(system, uid, "is damaged")

        assert system.workers[-1].stop() == 0
        file.rename(file.with_name("away"))
        system.start_worker()
        await_paused(system, uid, "is damaged")

        assert not file.exists()


def test_damage_found_during_work_pauses_the_pipeline_and_loses_nothing() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        fill(system, uid)
        assert system.workers[-1].stop() == 0
        file = system.store_file(uid)
        flip_bytes(
            file, 8 * PAGE, file.stat().st_size, file.stat().st_size // 20
        )  # a clean close: no check at open

        system.start_worker()
        idents = [
            system.client.enter(uid, text) for text in ("/search tea", "/read", "/write more")
        ]
        await_paused(system, uid, "is damaged")

        assert Probe(system).slowest_s(lambda: True) < 2 + LATE_S
        assert not system.dead_letters(uid)
        assert system.client.redis.xrange(f"pipeline:{{{uid}}}:in", idents[-1], idents[-1])


def test_a_restored_store_is_served_again_with_its_waiting_messages() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        fill(system, uid, 500)
        saved = type_command(system, "backup", "--to", str(system.folder / "saved"))
        assert saved.returncode == 0, saved.stderr
        system.workers[-1].kill()
        as_after_a_crash(system.store_file(uid))
        cut_short(system.store_file(uid))
        system.start_worker()
        system.client.enter(uid, "/write after")
        await_paused(system, uid, "is damaged")

        refused = type_command(system, "restore", str(system.folder / "saved"), uid)
        system.workers[-1].stop()
        restored = type_command(system, "restore", str(system.folder / "saved"), uid)
        system.start_worker()
        system.client.await_quiet(uid)

        assert (refused.returncode, restored.returncode) == (1, 0), refused.stderr + restored.stderr
        assert "stop it" in refused.stderr
        assert system.contents(uid) == [
            *[
                f"tea number {number}, of which nothing may be lost: {'leaf ' * 50}"
                for number in range(500)
            ],
            "after",
        ]
        assert len(list(system.store_file(uid).parent.glob("*.replaced-*"))) >= 1


@pytest.mark.parametrize("damage", [pages_flipped, flip_index])
def test_a_salvaged_store_keeps_the_readable_records(
    damage: Damage, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        file = crashed_system(system, uid)
        damage(file)
        system.start_worker()
        await_paused(system, uid, "is damaged")
        system.workers[-1].stop()

        salvaged = type_command(system, "salvage", uid)
        system.start_worker()
        found = system.client.answer(uid, "/search 1499")
        left = len(system.contents(uid))

        record_figures(
            18, f"salvage after {damage.__name__}".replace("_", " "), records=1500, salvaged=left
        )
        assert salvaged.returncode == 0, salvaged.stderr
        assert left == 1500 if damage is flip_index else 900 < left < 1500
        assert [record["content"][:15] for record in found] == ["tea number 1499"]
        assert system.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_a_truncated_log_is_found_by_the_commits_on_the_bus(record_figures: RecordFigures) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        for number in range(40):
            system.client.ask(uid, f"/write {number}")
        system.workers[-1].kill()
        log = log_of(system.store_file(uid))
        os.truncate(log, log.stat().st_size // 2)

        system.start_worker()
        reason = await_paused(system, uid, "commits are lost")
        system.workers[-1].stop()
        salvaged = type_command(system, "salvage", uid)
        system.start_worker()
        kept = system.client.answer(uid, "/read")

        assert salvaged.returncode == 0, salvaged.stderr
        record_figures(
            18,
            "half of the log gone",
            commits=40,
            salvaged=len(kept),
            found="by the bus's commit number",
        )
        assert "though they were acknowledged" in reason
        assert [record["content"] for record in kept] == [
            str(number) for number in range(len(kept))
        ]
        assert 0 < len(kept) < 40


def assert_paused_until_salvaged(system: TestSystem, uid: str, reason: str) -> None:
    """Check that the pipeline is paused, and that messages which arrive meanwhile run in the
    salvaged store.
    """
    system.start_worker()
    system.client.enter(uid, "/write more")
    await_paused(system, uid, reason)
    system.workers[-1].stop()
    emptied = type_command(system, "salvage", uid, "--empty")
    system.start_worker()
    system.client.await_quiet(uid)
    assert emptied.returncode == 0, emptied.stderr
    assert system.contents(uid) == ["more"]


def test_a_missing_store_file_is_not_recreated() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.ask(uid, "/write tea")
        system.workers[-1].stop()
        system.store_file(uid).unlink()

        assert_paused_until_salvaged(system, uid, "the file and its acknowledged data are gone")


def test_an_emptied_store_is_reported_everywhere_and_salvaged() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.ask(uid, "/write tea")
        system.workers[-1].stop()
        os.truncate(system.store_file(uid), 0)
        told = [
            type_command(system, *words.split())
            for words in (
                f"scrub {uid}",
                f"export {uid} --records",
                f"backup --to {system.folder / 'backup'}",
            )
        ]

        assert_paused_until_salvaged(system, uid, "it is empty")

        assert all(
            "it is empty: its data is lost" in one.stdout + one.stderr and one.returncode == 1
            for one in told
        )
        assert all(f"instances/{uid}/memories" in one.stdout + one.stderr for one in told)


def test_a_scrub_finds_a_changed_text_and_a_stale_index() -> None:
    uid, other = make_uid(), make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        guid = system.client.answer(uid, "/write the kettle is warm")["guid"]
        system.client.answer(uid, "/write another")
        system.client.answer(other, "/write sound")
        assert type_command(system, "scrub").returncode == 0
        system.workers[-1].stop()
        replace_text(system.store_file(uid), b"the kettle is warm", b"the kettle is cold")
        system.start_worker()
        assert len(system.client.answer(uid, "/read")) == 2  # SQLite reports no damage

        scrubbed = type_command(system, "scrub")
        saved = type_command(system, "backup", "--to", str(system.folder / "saved"))

        assert scrubbed.returncode == saved.returncode == 1
        assert f"{guid} has changed since it was written" in scrubbed.stdout
        assert "index does not match the records" in scrubbed.stdout
        assert f"instances/{other}/memories: sound" in scrubbed.stdout
        assert (
            "is damaged" in saved.stderr
            and not (system.folder / f"saved/instances/{uid}/memories.db").exists()
        )
        assert (system.folder / f"saved/instances/{other}/memories.db").exists()


def test_a_changed_text_is_not_exported_until_it_is_repaired() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        guid = system.client.answer(uid, "/write the kettle is warm")["guid"]
        system.workers[-1].stop()
        replace_text(system.store_file(uid), b"the kettle is warm", b"the kettle is cold")

        exported = type_command(
            system, "export", uid, "--records", "-o", str(system.folder / "out.jsonl")
        )
        scrubbed = type_command(system, "scrub")
        salvaged = type_command(system, "salvage", uid, "--force")
        saved = type_command(system, "backup", "--to", str(system.folder / "saved"))

        assert exported.returncode == 1 and not (system.folder / "out.jsonl").exists()
        assert (
            f"instances/{uid}/memories is damaged: 1 record differs from what was written"
            in exported.stderr
        )
        assert "`memrelay salvage`" in scrubbed.stdout and "--force" in scrubbed.stdout
        assert f"{guid} has changed since it was written" in salvaged.stdout
        assert (type_command(system, "scrub").returncode, saved.returncode) == (0, 0)


def test_records_without_checksums_are_counted_as_unchecked() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write old")
        system.rows(uid, "UPDATE records SET crc = NULL RETURNING 1")

        system.client.answer(uid, "/write new")
        wait_for(lambda: len(system.contents(uid)) == 2, "both are there")

        assert "sound; 2 records" in type_command(system, "scrub").stdout
