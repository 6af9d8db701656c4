"""Row 18: changed bytes in pages, in the text of a record and in the index; a truncated file;
half of the log lost.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memrelay.memory.engine.damage import note_of
from tests.faults.conftest import Tell
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
from tests.support.house import House
from tests.support.probe import Probe
from tests.support.tiers import first_always
from tests.support.told import await_paused, type_command
from tests.support.waiting import LATE_S, wait_for

Damage = Callable[[Path], None]


def pages_flipped(file: Path) -> None:
    middle = file.stat().st_size // 2 // PAGE * PAGE
    flip_bytes(file, middle, middle + 20 * PAGE, 2000)


def header_flipped(file: Path) -> None:
    flip_bytes(file, 0, 100, 50)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def crashed_house(house: House, uid: str) -> Path:
    """Return a store whose worker was killed."""
    house.start_worker(bundles=[make_bundle(uid)])
    fill(house, uid)
    house.workers[-1].kill()
    as_after_a_crash(house.store_file(uid))
    return house.store_file(uid)


@pytest.mark.parametrize("damage", first_always(pages_flipped, header_flipped, cut_short))
def test_structural_damage_pauses_only_its_pipeline(damage: Damage, tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        file = crashed_house(house, uid)
        damage(file)
        before = file.read_bytes()

        worker = house.start_worker()
        ident = house.client.enter(uid, "/write after")
        reason = await_paused(house, uid, "is damaged")

        assert "memrelay restore" in reason and "memrelay salvage" in reason
        assert note_of(file).read_text().count("memrelay restore") == 1
        slowest_s = Probe(house).slowest_s(lambda: True)
        tell(
            18,
            damage.__name__.replace("_", " "),
            found="at open",
            others_answered_within_s=slowest_s,
        )
        assert slowest_s < 2 + LATE_S
        assert (worker.lives, file.read_bytes(), house.dead_letters(uid)) == (True, before, [])
        assert house.client.redis.xrange(f"pipeline:{{{uid}}}:in", ident, ident)


def test_a_store_with_a_wrong_schema_version_pauses_and_is_salvaged() -> None:
    uid, other = make_uid(), make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        house.client.answer(uid, "/write before")
        house.workers[-1].stop()
        house.rows(
            uid, "PRAGMA user_version = 8"
        )  # the following migration creates tables that exist already

        worker = house.start_worker()
        house.client.enter(uid, "/write after")
        reason = await_paused(house, uid, "tables that do not match its schema version")
        house.client.answer(other, "/write not disturbed")
        worker.stop()
        salvaged = type_command(house, "salvage", uid, "--force")
        house.start_worker()
        house.client.await_quiet(uid)

        assert "memrelay salvage" in reason and salvaged.returncode == 0, salvaged.stderr
        assert (worker.lives, house.contents(uid)) == (False, ["before", "after"])


def test_a_damaged_store_stays_paused_after_a_restart_and_is_not_recreated() -> None:
    uid = make_uid()
    with House() as house:
        file = crashed_house(house, uid)
        pages_flipped(file)
        house.start_worker()
        await_paused(house, uid, "is damaged")

        assert house.workers[-1].stop() == 0
        file.rename(file.with_name("away"))
        house.start_worker()
        await_paused(house, uid, "is damaged")

        assert not file.exists()


def test_damage_found_during_work_pauses_the_pipeline_and_loses_nothing() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        fill(house, uid)
        assert house.workers[-1].stop() == 0
        file = house.store_file(uid)
        flip_bytes(
            file, 8 * PAGE, file.stat().st_size, file.stat().st_size // 20
        )  # a clean close: no check at open

        house.start_worker()
        idents = [house.client.enter(uid, text) for text in ("/search tea", "/read", "/write more")]
        await_paused(house, uid, "is damaged")

        assert Probe(house).slowest_s(lambda: True) < 2 + LATE_S
        assert not house.dead_letters(uid)
        assert house.client.redis.xrange(f"pipeline:{{{uid}}}:in", idents[-1], idents[-1])


def test_a_restored_store_is_served_again_with_its_waiting_messages() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        fill(house, uid, 500)
        saved = type_command(house, "backup", "--to", str(house.folder / "saved"))
        assert saved.returncode == 0, saved.stderr
        house.workers[-1].kill()
        as_after_a_crash(house.store_file(uid))
        cut_short(house.store_file(uid))
        house.start_worker()
        house.client.enter(uid, "/write after")
        await_paused(house, uid, "is damaged")

        refused = type_command(house, "restore", str(house.folder / "saved"), uid)
        house.workers[-1].stop()
        restored = type_command(house, "restore", str(house.folder / "saved"), uid)
        house.start_worker()
        house.client.await_quiet(uid)

        assert (refused.returncode, restored.returncode) == (1, 0), refused.stderr + restored.stderr
        assert "stop it" in refused.stderr
        assert house.contents(uid) == [
            *[
                f"tea number {number}, of which nothing may be lost: {'leaf ' * 50}"
                for number in range(500)
            ],
            "after",
        ]
        assert len(list(house.store_file(uid).parent.glob("*.replaced-*"))) >= 1


@pytest.mark.parametrize("damage", [pages_flipped, flip_index])
def test_a_salvaged_store_keeps_the_readable_records(damage: Damage, tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        file = crashed_house(house, uid)
        damage(file)
        house.start_worker()
        await_paused(house, uid, "is damaged")
        house.workers[-1].stop()

        salvaged = type_command(house, "salvage", uid)
        house.start_worker()
        found = house.client.answer(uid, "/search 1499")
        left = len(house.contents(uid))

        tell(18, f"salvage after {damage.__name__}".replace("_", " "), records=1500, salvaged=left)
        assert salvaged.returncode == 0, salvaged.stderr
        assert left == 1500 if damage is flip_index else 900 < left < 1500
        assert [record["content"][:15] for record in found] == ["tea number 1499"]
        assert house.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_a_truncated_log_is_found_by_the_commits_on_the_bus(tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        for number in range(40):
            house.client.ask(uid, f"/write {number}")
        house.workers[-1].kill()
        log = log_of(house.store_file(uid))
        os.truncate(log, log.stat().st_size // 2)

        house.start_worker()
        reason = await_paused(house, uid, "commits are lost")
        house.workers[-1].stop()
        salvaged = type_command(house, "salvage", uid)
        house.start_worker()
        kept = house.client.answer(uid, "/read")

        assert salvaged.returncode == 0, salvaged.stderr
        tell(
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


def assert_paused_until_salvaged(house: House, uid: str, reason: str) -> None:
    """Check that the pipeline is paused, and that messages which arrive meanwhile run in the
    salvaged store.
    """
    house.start_worker()
    house.client.enter(uid, "/write more")
    await_paused(house, uid, reason)
    house.workers[-1].stop()
    emptied = type_command(house, "salvage", uid, "--empty")
    house.start_worker()
    house.client.await_quiet(uid)
    assert emptied.returncode == 0, emptied.stderr
    assert house.contents(uid) == ["more"]


def test_a_missing_store_file_is_not_recreated() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.ask(uid, "/write tea")
        house.workers[-1].stop()
        house.store_file(uid).unlink()

        assert_paused_until_salvaged(house, uid, "the file and its acknowledged data are gone")


def test_an_emptied_store_is_reported_everywhere_and_salvaged() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.ask(uid, "/write tea")
        house.workers[-1].stop()
        os.truncate(house.store_file(uid), 0)
        told = [
            type_command(house, *words.split())
            for words in (
                f"scrub {uid}",
                f"export {uid} --records",
                f"backup --to {house.folder / 'backup'}",
            )
        ]

        assert_paused_until_salvaged(house, uid, "it is empty")

        assert all(
            "it is empty: its data is lost" in one.stdout + one.stderr and one.returncode == 1
            for one in told
        )
        assert all(str(house.store_file(uid)) in one.stdout + one.stderr for one in told)


def test_a_scrub_finds_a_changed_text_and_a_stale_index() -> None:
    uid, other = make_uid(), make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid), make_bundle(other)])
        guid = house.client.answer(uid, "/write the kettle is warm")["guid"]
        house.client.answer(uid, "/write another")
        house.client.answer(other, "/write sound")
        assert type_command(house, "scrub").returncode == 0
        house.workers[-1].stop()
        replace_text(house.store_file(uid), b"the kettle is warm", b"the kettle is cold")
        house.start_worker()
        assert len(house.client.answer(uid, "/read")) == 2  # SQLite reports no damage

        scrubbed = type_command(house, "scrub")
        saved = type_command(house, "backup", "--to", str(house.folder / "saved"))

        assert scrubbed.returncode == saved.returncode == 1
        assert f"{guid} has changed since it was written" in scrubbed.stdout
        assert "index does not match the records" in scrubbed.stdout
        assert f"instances/{other}/memories: sound" in scrubbed.stdout
        assert (
            "is damaged" in saved.stderr
            and not (house.folder / f"saved/instances/{uid}/memories.db").exists()
        )
        assert (house.folder / f"saved/instances/{other}/memories.db").exists()


def test_a_changed_text_is_not_exported_until_it_is_repaired() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        guid = house.client.answer(uid, "/write the kettle is warm")["guid"]
        house.workers[-1].stop()
        replace_text(house.store_file(uid), b"the kettle is warm", b"the kettle is cold")

        exported = type_command(
            house, "export", uid, "--records", "-o", str(house.folder / "out.jsonl")
        )
        scrubbed = type_command(house, "scrub")
        salvaged = type_command(house, "salvage", uid, "--force")
        saved = type_command(house, "backup", "--to", str(house.folder / "saved"))

        assert exported.returncode == 1 and not (house.folder / "out.jsonl").exists()
        assert (
            f"instances/{uid}/memories is damaged: 1 record differs from what was written"
            in exported.stderr
        )
        assert "`memrelay salvage`" in scrubbed.stdout and "--force" in scrubbed.stdout
        assert f"{guid} has changed since it was written" in salvaged.stdout
        assert (type_command(house, "scrub").returncode, saved.returncode) == (0, 0)


def test_records_without_checksums_are_counted_as_unchecked() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write old")
        house.rows(uid, "UPDATE records SET crc = NULL RETURNING 1")

        house.client.answer(uid, "/write new")
        wait_for(lambda: len(house.contents(uid)) == 2, "both are there")

        assert "sound; 2 records" in type_command(house, "scrub").stdout
