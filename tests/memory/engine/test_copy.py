"""A copy of a store is a consistent snapshot, or it is not made."""

import asyncio
import resource
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.engine.connection import APPLICATION_ID, migrations
from memrelay.memory.engine.copy import (
    PREFIXES,
    clear_copies,
    copy_database,
    inspect,
    inspect_system,
    temporary_copy,
    temporary_path,
)
from memrelay.memory.errors import StoreBusy
from tests.memory.builders import make_store, write_all


def test_a_copy_without_disk_space_reports_the_folder_and_the_fix(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(store, "x" * 300_000)
    (folder := tmp_path / "copies").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(
            StoreBusy,
            match=f"copied to {folder}: make room there or look at its disk, and try again$",
        ):
            copy_database(Path(store.path), folder / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    copy_database(Path(store.path), folder / "whole")


def test_the_next_copy_deletes_only_leftovers_of_killed_programs(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(store, "secret")
    (leftover := tmp_path / ".scrub-left").mkdir()
    copy_database(Path(store.path), leftover / "copy")

    with (
        temporary_copy(Path(store.path), tmp_path, ".export-") as copy_in_use,
        temporary_copy(Path(store.path), tmp_path, ".scrub-") as copy,
    ):
        assert inspect(copy).records == inspect(copy_in_use).records == 1
        assert not leftover.exists()

    assert not [*tmp_path.glob(".scrub-*"), *tmp_path.glob(".export-*")]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER copier AFTER INSERT ON records BEGIN DELETE FROM memories; END",
        "CREATE VIEW copied AS SELECT content FROM records",
    ],
)
def test_a_store_with_an_unknown_trigger_or_view_is_not_sound(tmp_path: Path, sql: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")
    store.close()
    assert inspect(Path(store.path)).faults == []

    apsw.Connection(store.path).execute(sql)

    (fault,) = inspect(Path(store.path)).faults
    assert "which Memrelay did not create" in fault


def test_records_without_a_checksum_are_counted_as_unknown(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "old.db"))
    connection.execute(migrations()[0])
    connection.pragma("user_version", 1)
    connection.pragma("application_id", APPLICATION_ID)
    connection.execute(
        "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at) "
        "VALUES ('g', 's', 'k', 'tea', 'x', 1, 1)"
    )
    connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
    connection.close()

    assert inspect(tmp_path / "old.db")[:4] == (1, 1, "", [])


def test_a_control_plane_with_an_unknown_trigger_is_not_sound(tmp_path: Path) -> None:
    async def create() -> None:
        async with Catalog(tmp_path):
            pass

    asyncio.run(create())
    assert inspect_system(tmp_path / "system.db") == []

    apsw.Connection(str(tmp_path / "system.db")).execute(
        "CREATE TRIGGER leak AFTER INSERT ON keys BEGIN DELETE FROM sessions; END"
    )

    (fault,) = inspect_system(tmp_path / "system.db")
    assert "the trigger 'leak'" in fault


def test_a_folder_that_another_program_clears_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def make_and_clear(*given: Any) -> str:
        made.append(make(*given))
        if len(made) == 1:
            clear_copies(tmp_path)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_clear)

    with temporary_path(tmp_path, PREFIXES[0]) as path:
        path.write_text("tea")

    assert len(made) == 2 and list(tmp_path.iterdir()) == []
