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

from memrelay.memory.engine.as_of import PastState
from memrelay.memory.engine.damage import ANY, mark_damaged
from memrelay.memory.engine.snapshots import Snapshots
from memrelay.memory.transfer.backup import measure
from memrelay.memory.transfer.backup_times import read_last_backup
from tests.cli.serving import run_on
from tests.support.bundles import make_bundle, make_uid
from tests.support.damage import replace_text
from tests.support.disk import small_disk
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.worker_reports import await_report


def test_a_backup_under_load_is_a_consistent_snapshot_and_blocks_no_work() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        over = threading.Event()

        def load() -> None:
            number = 0
            while not over.is_set():
                system.client.enter_together(
                    uid, [f"/write {at}" for at in range(number, number + 100)]
                )
                number += 100
                system.client.await_quiet(uid, 30)

        loading = threading.Thread(target=load)
        loading.start()
        try:
            wait_for(lambda: len(system.contents(uid)) > 1, "the load has begun")
            made = [
                run_on(system, "backup", "--to", str(system.folder / name))
                for name in ("one", "two")
            ]
        finally:
            over.set()
            loading.join()
        manifest = json.loads((system.folder / "two" / "manifest.json").read_bytes())
        (store,) = [file for file in manifest["files"] if file["memory_id"]]

        assert [done.code for done in made] == [0, 0], made[0].err + made[1].err
        assert 1 < store["records"] <= len(system.contents(uid))
        assert manifest["pipelines"][0]["uid"] == uid and len(store["sha256"]) == 64
        assert not [path for path in system.folder.iterdir() if path.name.startswith(".")]
        assert not system.dead_letters(uid)


def test_a_backup_restores_records_and_active_bundles_on_an_empty_machine() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        saved = str(system.folder / "saved")
        before = read_last_backup(system.root)
        run_on(system, "backup", "--to", saved)

        assert (before, read_last_backup(system.root) // 100_000) == (0, time.time_ns() // 10**11)
        with TestSystem() as empty:
            restored = run_on(empty, "restore", saved)
            empty.start_worker()
            empty.client.await_served(uid)

            assert restored.code == 0, restored.err
            assert [one["content"] for one in empty.client.answer(uid, "/read")] == ["tea"]
            assert empty.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_a_working_store_is_replaced_only_with_force_and_the_old_file_is_kept() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.ask(uid, "/write old")
        saved = str(system.folder / "saved")
        run_on(system, "backup", "--to", saved)
        for number in range(5):
            system.client.ask(uid, f"/write {number}")

        serving = run_on(system, "restore", saved, uid, "--force")
        system.workers[-1].stop()
        unforced = run_on(system, "restore", saved, uid)
        forced = run_on(system, "restore", saved, uid, "--force")
        system.start_worker()

        assert (serving.code, unforced.code, forced.code) == (1, 1, 0), forced.err
        assert "stop it" in serving.err and "--force" in unforced.err
        assert [one["content"] for one in system.client.answer(uid, "/read")] == ["old"]
        assert stat.S_IMODE(system.store_file(uid).stat().st_mode) == 0o600
        assert not await_report(system, uid, lambda report: True, "it is served")["paused"]
        assert len(list(system.store_file(uid).parent.glob("*.replaced-*"))) == 1


@pytest.mark.slow
def test_snapshots_of_the_past_are_no_stores_for_any_command() -> None:
    uid = make_uid()
    with TestSystem() as system, closing(Snapshots(system.root, 1)) as snapshots:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        system.workers[-1].stop()
        # One of a live worker, and one of a killed worker.
        snapshots.make(f"instances/{uid}/memories", system.store_file(uid), PastState(0, 0))
        (left := system.root / ".asof-left").mkdir()
        shutil.copy(system.store_file(uid), left / "1.db")
        saved = system.folder / "saved"
        calls = [
            ("doctor",),
            ("backup", "--to", str(saved)),
            ("export", uid, "--records"),
            ("scrub",),
            ("salvage", uid, "--force"),
        ]
        done = {call[0]: run_on(system, *call) for call in calls}

        printed = {name: one.out + one.err for name, one in done.items()}
        assert not [name for name, text in printed.items() if ".asof-" in text], printed
        assert [done[name].code for name in ("backup", "export", "scrub", "salvage")] == [0] * 4, (
            printed
        )
        assert not [path for path in saved.rglob("*") if "asof" in str(path)]
        assert len(list(system.root.glob(".asof-*/1.db"))) == 1


@pytest.mark.parametrize("break_it", first_always("changed", "missing", "manifest", "elsewhere"))
def test_an_incomplete_backup_is_rejected_before_any_change(break_it: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        saved = system.folder / "saved"
        run_on(system, "backup", "--to", str(saved))
        system.workers[-1].stop()
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

        done = run_on(system, "restore", str(saved), "--force")

        assert (done.code, done.err.startswith("memrelay: ")) == (1, True), done.err
        assert "Traceback" not in done.err
        assert system.contents(uid) == ["tea"]
        assert not list(system.root.rglob("*.replaced-*"))


def test_a_backup_does_not_write_into_an_existing_folder(tmp_path: Path) -> None:
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(make_uid())])

        done = run_on(system, "backup", "--to", str(tmp_path))

        assert (done.code, list(tmp_path.iterdir())) == (1, [])
        assert "exists; choose a new folder" in done.err


def test_file_commands_in_an_empty_memory_root_fail_and_create_nothing() -> None:
    with TestSystem() as system:
        done = [
            run_on(system, *command)
            for command in (["backup", "--to", "x"], ["scrub"], ["salvage", "x"])
        ]

        assert [one.code for one in done] == [1, 1, 1]
        assert all("nothing is stored" in one.err for one in done)
        shutil.rmtree(system.root, ignore_errors=True)


def test_a_store_behind_a_symlink_or_a_loop_is_backed_up_once(tmp_path: Path) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        system.workers[-1].stop()
        here = system.root / "instances" / uid
        shutil.move(here, tmp_path / "far")
        here.symlink_to(tmp_path / "far")
        (here / "loop").symlink_to(here)

        done = run_on(system, "backup", "--to", str(system.folder / "saved"))

        files = json.loads((system.folder / "saved" / "manifest.json").read_bytes())["files"]
        assert done.code == 0, done.err
        assert [file["memory_id"] for file in files] == ["", f"instances/{uid}/memories"]


def test_a_file_of_another_program_is_reported_and_the_rest_is_processed() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        shutil.copyfile(system.root / "system.db", system.root / "instances" / uid / "other.db")

        scrubbed = run_on(system, "scrub")
        saved = run_on(system, "backup", "--to", str(system.folder / "saved"))
        inside = run_on(system, "backup", "--to", str(system.root / "saved"))

        assert (scrubbed.code, saved.code, inside.code) == (1, 1, 1)
        assert (
            f"instances/{uid}/memories: sound" in scrubbed.out
            and "not a Memrelay store" in scrubbed.out
        )
        assert f"instances/{uid}/memories.db: " in saved.out and "not a Memrelay store" in saved.err
        assert "choose a folder outside" in inside.err and not (system.root / "saved").exists()


@pytest.mark.parametrize("damage", [lambda data: b"x" * 8192, lambda data: data[:5000]])
def test_a_damaged_control_plane_is_restored_and_each_replaced_file_is_kept(
    damage: Callable[[bytes], bytes],
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        saved, system_file = str(system.folder / "saved"), system.root / "system.db"
        run_on(system, "backup", "--to", saved)
        system.workers[-1].stop()
        spoilt = damage(system_file.read_bytes())
        system_file.write_bytes(spoilt)
        (system.root / "system.db-journal").write_bytes(b"of what was there")

        done = run_on(system, "restore", saved, "--force")
        again = run_on(system, "restore", saved, "--force")

        assert (done.code, again.code) == (0, 0), done.err + again.err
        assert json.loads(run_on(system, "ls").out)["pipeline_uid"] == uid
        kept = [
            file.read_bytes()
            for file in system.root.glob("system.db.replaced-*")
            if "journal" not in file.name
        ]
        assert len(kept) == 2 and spoilt in kept
        assert {
            stat.S_IMODE(file.stat().st_mode)
            for file in system.root.glob("system.db.replaced-*[0-9a-f]")
        } == {0o600}


def test_a_backup_without_a_valid_control_plane_is_rejected(tmp_path: Path) -> None:
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(make_uid())])
        saved, system_file = system.folder / "saved", system.root / "system.db"
        run_on(system, "backup", "--to", str(saved))
        system.workers[-1].stop()
        was = system_file.read_bytes()
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            other.execute("CREATE TABLE other(a)")
        shutil.copyfile(tmp_path / "other.db", saved / "system.db")
        manifest = json.loads((saved / "manifest.json").read_bytes())
        manifest["files"][0] |= dict(
            zip(("bytes", "sha256"), measure(saved / "system.db"), strict=True)
        )
        (saved / "manifest.json").write_text(json.dumps(manifest))

        done = run_on(system, "restore", str(saved), "--force")

        assert done.code == 1 and "it has no pipelines" in done.err, done.err
        assert system_file.read_bytes() == was


def test_a_backup_with_a_pipe_or_without_files_is_rejected() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        saved = system.folder / "saved"
        run_on(system, "backup", "--to", str(saved))
        worker.stop()
        manifest, results = saved / "manifest.json", []
        whole = json.loads(manifest.read_bytes())
        for path in (saved / f"instances/{uid}/memories.db", manifest):
            path.unlink()
            os.mkfifo(path)
            results.append(run_on(system, "restore", str(saved), "--force"))
            path.unlink()
        manifest.write_text(json.dumps(whole | {"files": []}))
        results.append(run_on(system, "restore", str(saved), "--force"))

        assert [one.code for one in results] == [1, 1, 1]
        assert (
            "memories.db is not a regular file" in results[0].err
            and "manifest.json is not a regular file" in results[1].err
        )
        assert "lists no files" in results[2].err
        assert system.contents(uid) == ["tea"]


def test_an_export_reports_a_text_that_is_no_longer_utf8() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write a recognizable text")
        system.workers[-1].stop()
        replace_text(system.store_file(uid), b"recognizable", b"recogn\xffzable")

        done = run_on(system, "export", uid, "--records", "-o", "out.jsonl")

        assert done.code == 1 and "is damaged" in done.err and "Traceback" not in done.err, done.err
        assert not list(system.root.glob(".export-*"))


def test_a_restore_on_a_full_disk_names_the_file_and_leaves_nothing_behind() -> None:
    uid = make_uid()
    with TestSystem() as system, small_disk(system.root, 4) as disk:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")
        saved = str(system.folder / "saved")
        run_on(system, "backup", "--to", saved)
        assert worker.stop() == 0
        before = {path: path.stat().st_ino for path in system.root.rglob("*.db*")}
        results = []
        for room in (0, 100_000):
            disk.fill(room)
            results.append(run_on(system, "restore", saved, "--force"))
            disk.free()

        assert [one.code for one in results] == [1, 1]
        assert f"{system.root}/.system.db.restored: No space left on device" in results[0].err
        assert f"{system.root}/system.db.replaced-" in results[1].err
        assert {path: path.stat().st_ino for path in system.root.rglob("*.db*")} == before
        assert list(system.root.glob(".*")) == []


def test_a_scrub_reports_a_sound_store_with_a_damage_note_and_a_missing_store() -> None:
    uid, gone = make_uid(), make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid), make_bundle(gone)])
        for one in (uid, gone):
            system.client.answer(one, "/write tea")
        worker.stop()
        for one in (uid, gone):
            mark_damaged(
                system.store_file(one),
                "a restore or salvage was interrupted; run it again",
                ANY,
            )
        system.store_file(gone).unlink()

        scrubbed = run_on(system, "scrub")
        saved = run_on(system, "backup", "--to", str(system.folder / "saved"))

        assert scrubbed.code == 1 and scrubbed.out.count("DAMAGED") == 2, scrubbed.out
        assert scrubbed.out.count("interrupted; run it again") == 2 and "sound" not in scrubbed.out
        assert saved.code == 1 and saved.err.count("is not in the backup") == 2, saved.err


def test_a_store_is_not_reported_as_damaged_if_its_copy_does_not_fit() -> None:
    uid = make_uid()
    with TestSystem() as system:
        with (
            small_disk(system.root, 4) as disk,
            small_disk(system.folder / "elsewhere", 1) as elsewhere,
        ):
            system.start_worker(bundles=[make_bundle(uid)])
            system.client.enter_together(
                uid, [f"/write {'tea ' * 2000}{number}" for number in range(40)]
            )
            system.client.await_quiet(uid)
            disk.fill()
            scrubbed = run_on(system, "scrub")
            elsewhere.fill(300_000)
            saved = run_on(system, "backup", "--to", str(system.folder / "elsewhere" / "saved"))
            left = [
                path.name
                for path in (system.folder / "elsewhere" / "saved").rglob("*")
                if path.is_file()
            ]
            disk.free()

        assert (scrubbed.code, scrubbed.out) == (
            1,
            "",
        ) and "was not checked" in scrubbed.err
        assert "make room there" in scrubbed.err and "salvage" not in scrubbed.err
        assert saved.code == 1 and sorted(left) == ["manifest.json", "system.db"]
