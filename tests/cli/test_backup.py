"""Backup, restore and scrub: under load, on a new machine, over existing files, and damaged."""

import json
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.engine.damage import ANY, mark_damaged
from memrelay.memory.transfer.backup import measure
from memrelay.memory.transfer.backup_times import read_last_backup
from tests.cli.serving import run_on
from tests.support.bundles import make_bundle, make_uid
from tests.support.damage import replace_text
from tests.support.disk import small_disk
from tests.support.house import House
from tests.support.tiers import first_always
from tests.support.told import await_told


def test_a_backup_under_load_is_a_consistent_snapshot_and_blocks_no_work() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write before")
        over = threading.Event()

        def load() -> None:
            number = 0
            while not over.is_set():
                house.client.enter_together(
                    uid, [f"/write {at}" for at in range(number, number + 100)]
                )
                number += 100
                house.client.await_quiet(uid, 30)

        loading = threading.Thread(target=load)
        loading.start()
        try:
            made = [
                run_on(house, "backup", "--to", str(house.folder / name)) for name in ("one", "two")
            ]
        finally:
            over.set()
            loading.join()
        manifest = json.loads((house.folder / "two" / "manifest.json").read_bytes())
        (store,) = [file for file in manifest["files"] if file["memory_id"]]

        assert [done.code for done in made] == [0, 0], made[0].err + made[1].err
        assert 1 < store["records"] <= len(house.contents(uid))
        assert manifest["pipelines"][0]["uid"] == uid and len(store["sha256"]) == 64
        assert not [path for path in house.folder.iterdir() if path.name.startswith(".")]
        assert not house.dead_letters(uid)


def test_a_backup_restores_records_and_active_bundles_on_an_empty_machine() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = str(house.folder / "saved")
        before = read_last_backup(house.root)
        run_on(house, "backup", "--to", saved)

        assert (before, read_last_backup(house.root) // 100_000) == (0, time.time_ns() // 10**11)
        with House() as empty:
            restored = run_on(empty, "restore", saved)
            empty.start_worker()
            empty.client.await_served(uid)

            assert restored.code == 0, restored.err
            assert [one["content"] for one in empty.client.answer(uid, "/read")] == ["tea"]
            assert empty.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_a_working_store_is_replaced_only_with_force_and_the_old_file_is_kept() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.ask(uid, "/write old")
        saved = str(house.folder / "saved")
        run_on(house, "backup", "--to", saved)
        for number in range(5):
            house.client.ask(uid, f"/write {number}")

        serving = run_on(house, "restore", saved, uid, "--force")
        house.workers[-1].stop()
        unforced = run_on(house, "restore", saved, uid)
        forced = run_on(house, "restore", saved, uid, "--force")
        house.start_worker()

        assert (serving.code, unforced.code, forced.code) == (1, 1, 0), forced.err
        assert "stop it" in serving.err and "--force" in unforced.err
        assert [one["content"] for one in house.client.answer(uid, "/read")] == ["old"]
        assert stat.S_IMODE(house.store_file(uid).stat().st_mode) == 0o600
        assert not await_told(house, uid, lambda told: True, "it is served")["paused"]
        assert len(list(house.store_file(uid).parent.glob("*.replaced-*"))) == 1


@pytest.mark.parametrize("break_it", first_always("changed", "missing", "manifest", "elsewhere"))
def test_an_incomplete_backup_is_rejected_before_any_change(break_it: str) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = house.folder / "saved"
        run_on(house, "backup", "--to", str(saved))
        house.workers[-1].stop()
        copy, manifest = saved / f"instances/{uid}/memories.db", saved / "manifest.json"
        if break_it == "changed":
            copy.write_bytes(copy.read_bytes().replace(b"tea", b"tee"))
        elif break_it == "missing":
            copy.unlink()
        elif break_it == "manifest":
            manifest.write_bytes(manifest.read_bytes()[:100])
        else:
            manifest.write_text(
                manifest.read_text().replace(f"instances/{uid}/memories", "../../../outside")
            )

        done = run_on(house, "restore", str(saved), "--force")

        assert (done.code, done.err.startswith("memrelay: ")) == (1, True), done.err
        assert "Traceback" not in done.err
        assert house.contents(uid) == ["tea"]
        assert not list(house.root.rglob("*.replaced-*"))


def test_a_backup_does_not_write_into_an_existing_folder(tmp_path: Path) -> None:
    with House() as house:
        house.start_worker(bundles=[make_bundle(make_uid())])

        done = run_on(house, "backup", "--to", str(tmp_path))

        assert (done.code, list(tmp_path.iterdir())) == (1, [])
        assert "exists; choose a new folder" in done.err


def test_file_commands_in_an_empty_memory_root_fail_and_create_nothing() -> None:
    with House() as house:
        done = [
            run_on(house, *command)
            for command in (["backup", "--to", "x"], ["scrub"], ["salvage", "x"])
        ]

        assert [one.code for one in done] == [1, 1, 1]
        assert all("nothing is stored" in one.err for one in done)
        shutil.rmtree(house.root, ignore_errors=True)


def test_a_store_behind_a_symlink_or_a_loop_is_backed_up_once(tmp_path: Path) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        house.workers[-1].stop()
        here = house.root / "instances" / uid
        shutil.move(here, tmp_path / "far")
        here.symlink_to(tmp_path / "far")
        (here / "loop").symlink_to(here)

        done = run_on(house, "backup", "--to", str(house.folder / "saved"))

        files = json.loads((house.folder / "saved" / "manifest.json").read_bytes())["files"]
        assert done.code == 0, done.err
        assert [file["memory_id"] for file in files] == ["", f"instances/{uid}/memories"]


def test_a_file_of_another_program_is_reported_and_the_rest_is_processed() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        shutil.copyfile(house.root / "system.db", house.root / "instances" / uid / "other.db")

        scrubbed = run_on(house, "scrub")
        saved = run_on(house, "backup", "--to", str(house.folder / "saved"))
        inside = run_on(house, "backup", "--to", str(house.root / "saved"))

        assert (scrubbed.code, saved.code, inside.code) == (1, 1, 1)
        assert (
            f"instances/{uid}/memories: sound" in scrubbed.out
            and "not a Memrelay store" in scrubbed.out
        )
        assert f"instances/{uid}/memories.db: " in saved.out and "not a Memrelay store" in saved.err
        assert "choose a folder outside" in inside.err and not (house.root / "saved").exists()


@pytest.mark.parametrize("damage", [lambda data: b"x" * 8192, lambda data: data[:5000]])
def test_a_damaged_control_plane_is_restored_and_each_replaced_file_is_kept(
    damage: Callable[[bytes], bytes],
) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved, system = str(house.folder / "saved"), house.root / "system.db"
        run_on(house, "backup", "--to", saved)
        house.workers[-1].stop()
        spoilt = damage(system.read_bytes())
        system.write_bytes(spoilt)
        (house.root / "system.db-journal").write_bytes(b"of what was there")

        done = run_on(house, "restore", saved, "--force")
        again = run_on(house, "restore", saved, "--force")

        assert (done.code, again.code) == (0, 0), done.err + again.err
        assert json.loads(run_on(house, "ls").out)["pipeline_uid"] == uid
        kept = [
            file.read_bytes()
            for file in house.root.glob("system.db.replaced-*")
            if "journal" not in file.name
        ]
        assert len(kept) == 2 and spoilt in kept
        assert {
            stat.S_IMODE(file.stat().st_mode)
            for file in house.root.glob("system.db.replaced-*[0-9a-f]")
        } == {0o600}


def test_a_backup_without_a_valid_control_plane_is_rejected(tmp_path: Path) -> None:
    with House() as house:
        house.start_worker(bundles=[make_bundle(make_uid())])
        saved, system = house.folder / "saved", house.root / "system.db"
        run_on(house, "backup", "--to", str(saved))
        house.workers[-1].stop()
        was = system.read_bytes()
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("CREATE TABLE other(a)")
        shutil.copyfile(tmp_path / "other.db", saved / "system.db")
        manifest = json.loads((saved / "manifest.json").read_bytes())
        manifest["files"][0] |= dict(
            zip(("bytes", "sha256"), measure(saved / "system.db"), strict=True)
        )
        (saved / "manifest.json").write_text(json.dumps(manifest))

        done = run_on(house, "restore", str(saved), "--force")

        assert done.code == 1 and "it has no pipelines" in done.err, done.err
        assert system.read_bytes() == was


def test_a_backup_with_a_pipe_or_without_files_is_rejected() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = house.folder / "saved"
        run_on(house, "backup", "--to", str(saved))
        worker.stop()
        manifest, results = saved / "manifest.json", []
        whole = json.loads(manifest.read_bytes())
        for path in (saved / f"instances/{uid}/memories.db", manifest):
            path.unlink()
            os.mkfifo(path)
            results.append(run_on(house, "restore", str(saved), "--force"))
            path.unlink()
        manifest.write_text(json.dumps(whole | {"files": []}))
        results.append(run_on(house, "restore", str(saved), "--force"))

        assert [one.code for one in results] == [1, 1, 1]
        assert (
            "memories.db is not a regular file" in results[0].err
            and "manifest.json is not a regular file" in results[1].err
        )
        assert "lists no files" in results[2].err
        assert house.contents(uid) == ["tea"]


def test_an_export_reports_a_text_that_is_no_longer_utf8() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write a recognizable text")
        house.workers[-1].stop()
        replace_text(house.store_file(uid), b"recognizable", b"recogn\xffzable")

        done = run_on(house, "export", uid, "--records", "-o", "out.jsonl")

        assert done.code == 1 and "is damaged" in done.err and "Traceback" not in done.err, done.err
        assert not list(house.root.glob(".export-*"))


def test_a_restore_on_a_full_disk_names_the_file_and_leaves_nothing_behind() -> None:
    uid = make_uid()
    with House() as house, small_disk(house.root, 4) as disk:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = str(house.folder / "saved")
        run_on(house, "backup", "--to", saved)
        assert worker.stop() == 0
        before = {path: path.stat().st_ino for path in house.root.rglob("*.db*")}
        results = []
        for room in (0, 100_000):
            disk.fill(room)
            results.append(run_on(house, "restore", saved, "--force"))
            disk.free()

        assert [one.code for one in results] == [1, 1]
        assert f"{house.root}/.system.db.restored: No space left on device" in results[0].err
        assert f"{house.root}/system.db.replaced-" in results[1].err
        assert {path: path.stat().st_ino for path in house.root.rglob("*.db*")} == before
        assert list(house.root.glob(".*")) == []


def test_a_scrub_reports_a_sound_store_with_a_damage_note_and_a_missing_store() -> None:
    uid, gone = make_uid(), make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid), make_bundle(gone)])
        for one in (uid, gone):
            house.client.answer(one, "/write tea")
        worker.stop()
        for one in (uid, gone):
            mark_damaged(
                house.store_file(one),
                "a restore or salvage was interrupted; run it again",
                ANY,
            )
        house.store_file(gone).unlink()

        scrubbed = run_on(house, "scrub")
        saved = run_on(house, "backup", "--to", str(house.folder / "saved"))

        assert scrubbed.code == 1 and scrubbed.out.count("DAMAGED") == 2, scrubbed.out
        assert scrubbed.out.count("interrupted; run it again") == 2 and "sound" not in scrubbed.out
        assert saved.code == 1 and saved.err.count("is not in the backup") == 2, saved.err


def test_a_store_is_not_reported_as_damaged_if_its_copy_does_not_fit() -> None:
    uid = make_uid()
    with House() as house:
        with (
            small_disk(house.root, 4) as disk,
            small_disk(house.folder / "elsewhere", 1) as elsewhere,
        ):
            house.start_worker(bundles=[make_bundle(uid)])
            house.client.enter_together(
                uid, [f"/write {'tea ' * 2000}{number}" for number in range(40)]
            )
            house.client.await_quiet(uid)
            disk.fill()
            scrubbed = run_on(house, "scrub")
            elsewhere.fill(300_000)
            saved = run_on(house, "backup", "--to", str(house.folder / "elsewhere" / "saved"))
            left = [
                path.name
                for path in (house.folder / "elsewhere" / "saved").rglob("*")
                if path.is_file()
            ]
            disk.free()

        assert (scrubbed.code, scrubbed.out) == (
            1,
            "",
        ) and "was not checked" in scrubbed.err
        assert "make room there" in scrubbed.err and "salvage" not in scrubbed.err
        assert saved.code == 1 and sorted(left) == ["manifest.json", "system.db"]
