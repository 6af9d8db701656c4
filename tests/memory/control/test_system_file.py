"""The file of the control plane: damage, foreign files and newer versions are reported."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import NewKey
from memrelay.memory.control.system_file import MIGRATIONS
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import StoreBroken, StoreBusy
from tests.memory.builders import NOW
from tests.memory.control.catalogs import ControlPlane, deploy, make_dead_letter, with_catalog
from tests.support.waiting import wait_for


@pytest.mark.parametrize(
    "content", [b"no database " * 1000, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_not_a_database_is_rejected_unchanged(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "system.db").write_bytes(content)

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.active())

    assert (tmp_path / "system.db").read_bytes() == content


def test_a_folder_in_place_of_the_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "system.db").mkdir()

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.active())


def test_a_file_in_place_of_the_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("in the way")

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(ControlPlane(tmp_path / "root"), lambda catalog: catalog.active())


def version_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)


def test_a_file_of_a_newer_version_is_rejected_unchanged(tmp_path: Path) -> None:
    deploy(ControlPlane(tmp_path))
    newer = sqlite3.connect(tmp_path / "system.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    with pytest.raises(StoreBroken, match="newer Memrelay"):
        deploy(ControlPlane(tmp_path))

    assert version_of(tmp_path / "system.db") == 99


def test_a_foreign_database_is_rejected_unchanged(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "system.db")
    foreign.execute("CREATE TABLE somebodys(data)")
    foreign.close()
    before = (tmp_path / "system.db").read_bytes()

    with pytest.raises(StoreBroken, match=r"system\.db"):
        deploy(ControlPlane(tmp_path))

    assert (tmp_path / "system.db").read_bytes() == before


def test_a_cancelled_opening_leaves_no_thread(tmp_path: Path) -> None:
    async def give_up() -> None:
        opening = asyncio.create_task(Catalog(tmp_path).__aenter__())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])

    before = set(threading.enumerate())
    asyncio.run(give_up())

    wait_for(lambda: set(threading.enumerate()) <= before, "its thread has ended")


def test_a_missing_file_is_reported_and_used_again_after_its_return(tmp_path: Path) -> None:
    async def run() -> None:
        async with Catalog(tmp_path) as catalog:
            await catalog.deploy("uid", "tea", "hash", b"{}", NOW)
            away = (tmp_path / "system.db").rename(tmp_path / "away")

            with pytest.raises(StoreBusy, match="moved or replaced"):
                await catalog.active()
            with pytest.raises(StoreBusy, match="moved or replaced"):
                await catalog.dead_letters.add([make_dead_letter("lost")])

            away.rename(tmp_path / "system.db")
            assert [one.uid for one in await catalog.active()] == ["uid"]

    asyncio.run(run())


def test_an_unreachable_file_is_reported_and_used_again_later(tmp_path: Path) -> None:
    root, away = tmp_path / "memory", tmp_path / "away"

    async def run() -> None:
        async with Catalog(root) as catalog:
            await catalog.deploy("uid", "tea", "hash", b"{}", NOW)
            root.rename(away)
            root.write_text("no folder")

            with pytest.raises(StoreBusy, match="cannot be accessed: Not a directory"):
                await catalog.active()

            root.unlink()
            away.rename(root)
            assert [one.uid for one in await catalog.active()] == ["uid"]

    asyncio.run(run())


def test_damage_to_an_open_file_is_reported_with_the_disk_and_the_restore(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Catalog(tmp_path) as catalog:
            with (tmp_path / "system.db").open("r+b") as file:
                file.write(b"x" * 4096)

            with pytest.raises(
                StoreBroken, match=r"check the disk.*`memrelay restore FOLDER --force`"
            ):
                await catalog.active()

    asyncio.run(run())


def test_an_emptied_file_is_not_treated_as_new(tmp_path: Path) -> None:
    deploy(ControlPlane(tmp_path))
    os.truncate(tmp_path / "system.db", 0)

    with pytest.raises(
        StoreBroken, match=r"system\.db cannot be used: it is empty.*`memrelay restore`"
    ):
        with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.active())

    assert (tmp_path / "system.db").stat().st_size == 0


def test_a_file_emptied_while_open_is_reported_and_not_recreated(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Catalog(tmp_path) as catalog:
            await catalog.keys.create(NewKey("laptop", ["read"], ["*"]), now_ms=NOW)
            os.truncate(tmp_path / "system.db", 0)

            with pytest.raises(StoreBusy, match="it is empty"):
                await catalog.keys.every()

    asyncio.run(run())


def test_a_new_file_next_to_existing_stores_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Store("instances/tea/memories", store_path(tmp_path, "instances/tea/memories")).close()

    for _ in range(2):
        with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.active())

    (event,) = [vars(record) for record in caplog.records]
    assert (event["message"], event["stores"]) == ("system_db_recreated", 1)
    assert "memrelay restore" in event["remedy"]


def test_a_new_file_is_complete_and_leaves_no_other_file(tmp_path: Path) -> None:
    with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.active())

    assert [path.name for path in tmp_path.iterdir()] == ["system.db"]
    assert version_of(tmp_path / "system.db") == len(MIGRATIONS)
