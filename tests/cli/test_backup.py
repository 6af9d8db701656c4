"""memrelay backup and restore: under load, on an empty machine, over what is there, interrupted,
and changed since."""

import json
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.files.backup import measure
from memrelay.memory.sqlite.damage import ANY, condemn
from tests.support.bundles import make_bundle, make_uid
from tests.support.damage import replace_text
from tests.support.disk import small_disk
from tests.support.house import House
from tests.support.told import await_told, type_command


def test_a_backup_under_load_holds_nobody_up_and_is_a_whole_moment() -> None:
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
                type_command(house, "backup", "--to", str(house.folder / name))
                for name in ("one", "two")
            ]
        finally:
            over.set()
            loading.join()
        manifest = json.loads((house.folder / "two" / "manifest.json").read_bytes())
        (store,) = [file for file in manifest["files"] if file["memory_id"]]

        assert [done.returncode for done in made] == [0, 0], made[0].stderr + made[1].stderr
        assert 1 < store["records"] <= len(house.contents(uid))
        assert manifest["pipelines"][0]["uid"] == uid and len(store["sha256"]) == 64
        assert not [path for path in house.folder.iterdir() if path.name.startswith(".")]
        assert not house.dead_letters(uid)


def test_a_backup_is_restored_on_an_empty_machine_with_the_bundles_in_service() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = str(house.folder / "saved")
        type_command(house, "backup", "--to", saved)

        with House() as empty:
            restored = type_command(empty, "restore", saved)
            empty.start_worker()
            empty.client.await_served(uid)

            assert restored.returncode == 0, restored.stderr
            assert [one["content"] for one in empty.client.answer(uid, "/read")] == ["tea"]
            assert empty.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_what_works_is_replaced_by_force_alone_and_kept_and_what_came_later_is_not_missed() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.ask(uid, "/write old")
        saved = str(house.folder / "saved")
        type_command(house, "backup", "--to", saved)
        for number in range(5):
            house.client.ask(uid, f"/write {number}")

        serving = type_command(house, "restore", saved, uid, "--force")
        house.workers[-1].stop()
        unforced = type_command(house, "restore", saved, uid)
        forced = type_command(house, "restore", saved, uid, "--force")
        house.start_worker()

        assert (serving.returncode, unforced.returncode, forced.returncode) == (1, 1, 0), (
            forced.stderr
        )
        assert "stop it" in serving.stderr and "--force" in unforced.stderr
        assert [one["content"] for one in house.client.answer(uid, "/read")] == ["old"]
        assert stat.S_IMODE(house.store_file(uid).stat().st_mode) == 0o600
        assert not await_told(house, uid, lambda told: True, "it is served")["paused"]
        assert len(list(house.store_file(uid).parent.glob("*.replaced-*"))) == 1


@pytest.mark.parametrize("break_it", ["changed", "missing", "manifest", "elsewhere"])
def test_a_backup_that_is_not_whole_is_refused_before_anything_is_changed(break_it: str) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = house.folder / "saved"
        type_command(house, "backup", "--to", str(saved))
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

        done = type_command(house, "restore", str(saved), "--force")

        assert (done.returncode, done.stderr.startswith("memrelay: ")) == (1, True), done.stderr
        assert "Traceback" not in done.stderr
        assert house.contents(uid) == ["tea"]
        assert not list(house.root.rglob("*.replaced-*"))


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    with House() as house:
        house.start_worker(bundles=[make_bundle(make_uid())])

        done = type_command(house, "backup", "--to", str(tmp_path))

        assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
        assert "exists; choose a new folder" in done.stderr


def test_where_nothing_is_stored_there_is_nothing_to_back_up_and_none_is_made() -> None:
    with House() as house:
        done = [
            type_command(house, *command)
            for command in (["backup", "--to", "x"], ["scrub"], ["salvage", "x"])
        ]

        assert [one.returncode for one in done] == [1, 1, 1]
        assert all("nothing is stored" in one.stderr for one in done)
        shutil.rmtree(house.root, ignore_errors=True)


def test_a_store_behind_a_link_is_in_the_backup_once_and_so_is_a_loop(tmp_path: Path) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        house.workers[-1].stop()
        here = house.root / "instances" / uid
        shutil.move(here, tmp_path / "far")
        here.symlink_to(tmp_path / "far")
        (here / "loop").symlink_to(here)

        done = type_command(house, "backup", "--to", str(house.folder / "saved"))

        files = json.loads((house.folder / "saved" / "manifest.json").read_bytes())["files"]
        assert done.returncode == 0, done.stderr
        assert [file["memory_id"] for file in files] == ["", f"instances/{uid}/memories"]


def test_a_file_of_another_program_is_named_and_stops_nothing() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        shutil.copyfile(house.root / "system.db", house.root / "instances" / uid / "other.db")

        scrubbed = type_command(house, "scrub")
        saved = type_command(house, "backup", "--to", str(house.folder / "saved"))
        inside = type_command(house, "backup", "--to", str(house.root / "saved"))

        assert (scrubbed.returncode, saved.returncode, inside.returncode) == (1, 1, 1)
        assert (
            f"instances/{uid}/memories: sound" in scrubbed.stdout
            and "not a Memrelay store" in scrubbed.stdout
        )
        assert (
            f"instances/{uid}/memories.db: " in saved.stdout
            and "not a Memrelay store" in saved.stderr
        )
        assert "name a folder outside" in inside.stderr and not (house.root / "saved").exists()


@pytest.mark.parametrize("damage", [lambda data: b"x" * 8192, lambda data: data[:5000]])
def test_a_damaged_control_plane_is_restored_and_what_was_there_is_kept_each_time(
    damage: Callable[[bytes], bytes],
) -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved, system = str(house.folder / "saved"), house.root / "system.db"
        type_command(house, "backup", "--to", saved)
        house.workers[-1].stop()
        spoilt = damage(system.read_bytes())
        system.write_bytes(spoilt)
        (house.root / "system.db-journal").write_bytes(b"of what was there")

        done = type_command(house, "restore", saved, "--force")
        again = type_command(house, "restore", saved, "--force")

        assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
        assert json.loads(type_command(house, "ls").stdout)["pipeline_uid"] == uid
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


def test_a_backup_whose_control_plane_is_none_is_refused(tmp_path: Path) -> None:
    with House() as house:
        house.start_worker(bundles=[make_bundle(make_uid())])
        saved, system = house.folder / "saved", house.root / "system.db"
        type_command(house, "backup", "--to", str(saved))
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

        done = type_command(house, "restore", str(saved), "--force")

        assert done.returncode == 1 and "it has no pipelines" in done.stderr, done.stderr
        assert system.read_bytes() == was


def test_a_backup_with_a_pipe_or_without_files_is_refused_at_once() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = house.folder / "saved"
        type_command(house, "backup", "--to", str(saved))
        worker.stop()
        manifest, told = saved / "manifest.json", []
        whole = json.loads(manifest.read_bytes())
        for path in (saved / f"instances/{uid}/memories.db", manifest):
            path.unlink()
            os.mkfifo(path)
            told.append(type_command(house, "restore", str(saved), "--force"))
            path.unlink()
        manifest.write_text(json.dumps(whole | {"files": []}))
        told.append(type_command(house, "restore", str(saved), "--force"))

        assert [one.returncode for one in told] == [1, 1, 1]
        assert (
            "memories.db is no file" in told[0].stderr
            and "manifest.json is no file" in told[1].stderr
        )
        assert "names no file" in told[2].stderr
        assert house.contents(uid) == ["tea"]


def test_a_text_that_is_none_any_more_is_told_by_an_export_in_a_sentence() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write a recognizable text")
        house.workers[-1].stop()
        replace_text(house.store_file(uid), b"recognizable", b"recogn\xffzable")

        done = type_command(house, "export", uid, "--records", "-o", "out.jsonl")

        assert (
            done.returncode == 1 and "is damaged" in done.stderr and "Traceback" not in done.stderr
        ), done.stderr
        assert not list(house.root.glob(".export-*"))


def test_a_restore_without_room_names_the_disk_that_is_full_and_leaves_nothing_behind() -> None:
    uid = make_uid()
    with House() as house, small_disk(house.root, 4) as disk:
        worker = house.start_worker(bundles=[make_bundle(uid)])
        house.client.answer(uid, "/write tea")
        saved = str(house.folder / "saved")
        type_command(house, "backup", "--to", saved)
        assert worker.stop() == 0
        before = {path: path.stat().st_ino for path in house.root.rglob("*.db*")}
        told = []
        for room in (0, 100_000):  # not even for a draft; and not for what is to be kept beside it
            disk.fill(room)
            told.append(type_command(house, "restore", saved, "--force"))
            disk.free()

        assert [one.returncode for one in told] == [1, 1]
        assert f"{house.root}/.system.db.restored: No space left on device" in told[0].stderr
        assert f"{house.root}/system.db.replaced-" in told[1].stderr
        assert {path: path.stat().st_ino for path in house.root.rglob("*.db*")} == before
        assert list(house.root.glob(".*")) == []


def test_a_scrub_names_a_sound_store_that_is_held_back_and_one_that_is_gone() -> None:
    uid, gone = make_uid(), make_uid()
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid), make_bundle(gone)])
        for one in (uid, gone):
            house.client.answer(one, "/write tea")
        worker.stop()
        for one in (uid, gone):
            condemn(
                house.store_file(one),
                "a restore or salvage was interrupted; run it again",
                ANY,
            )
        house.store_file(gone).unlink()

        scrubbed = type_command(house, "scrub")
        saved = type_command(house, "backup", "--to", str(house.folder / "saved"))

        assert scrubbed.returncode == 1 and scrubbed.stdout.count("DAMAGED") == 2, scrubbed.stdout
        assert (
            scrubbed.stdout.count("interrupted; run it again") == 2
            and "sound" not in scrubbed.stdout
        )
        assert saved.returncode == 1 and saved.stderr.count("is not in the backup") == 2, (
            saved.stderr
        )


def test_where_there_is_no_room_for_a_copy_the_store_is_not_called_damaged() -> None:
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
            scrubbed = type_command(house, "scrub")
            elsewhere.fill(300_000)
            saved = type_command(house, "backup", "--to", str(house.folder / "elsewhere" / "saved"))
            left = [
                path.name
                for path in (house.folder / "elsewhere" / "saved").rglob("*")
                if path.is_file()
            ]
            disk.free()

        assert (scrubbed.returncode, scrubbed.stdout) == (
            1,
            "",
        ) and "was not looked at" in scrubbed.stderr
        assert "make room there" in scrubbed.stderr and "salvage" not in scrubbed.stderr
        assert saved.returncode == 1 and sorted(left) == ["manifest.json", "system.db"]
