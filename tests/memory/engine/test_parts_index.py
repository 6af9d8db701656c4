"""The index of word parts over the life of a file: built when an older file is opened, inspected,
and rebuilt by a salvage."""

from pathlib import Path

import apsw
import pytest

from memrelay.memory.engine.connection import APPLICATION_ID, migrations
from memrelay.memory.engine.copy import inspect
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.records.writing import write
from memrelay.memory.transfer.salvage import salvage_store
from tests.memory.builders import (
    MEMORY_ID,
    append_to,
    assert_sound,
    contents,
    find,
    make_record,
    make_store,
    write_all,
)

CONTENTS = ["plain words", "userName", "日本語"]


def make_older_file(root: Path) -> Path:
    """Create a file of the schema version that had no parts."""
    path = store_path(root, MEMORY_ID)
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    for number, migration in enumerate(migrations()[:4], 1):
        connection.execute(migration)
        connection.pragma("user_version", number)
    connection.pragma("application_id", APPLICATION_ID)
    for content in CONTENTS:
        connection.execute(
            "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at) "
            "VALUES (?, 's', 'k', ?, 'x', 1, 1)",
            (content, content),
        )
    connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
    connection.close()
    return path


def execute_on_file(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def found(store: Store) -> list[list[str]]:
    return [contents(find(store, query)) for query in ("words", "name", "本")]


def test_an_older_file_gets_the_parts_index_when_it_is_opened(tmp_path: Path) -> None:
    path = make_older_file(tmp_path)

    store = make_store(tmp_path)

    assert found(store) == [[content] for content in CONTENTS]
    store.close()
    assert_sound(path)


def test_an_older_file_can_be_inspected_before_migration(tmp_path: Path) -> None:
    assert inspect(make_older_file(tmp_path)).faults == []


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE records SET parts = 'other thing' WHERE parts = 'user Name'",
        "UPDATE records SET parts = NULL WHERE parts = 'user Name'",
        "INSERT INTO parts_fts(parts_fts, rowid, content, parts) "
        "VALUES ('delete', 2, 'userName', 'user Name')",
    ],
)
def test_parts_that_differ_from_the_index_are_reported(tmp_path: Path, sql: str) -> None:
    store = make_store(tmp_path)
    write_all(store, *CONTENTS)
    store.close()
    execute_on_file(Path(store.path), sql)

    assert inspect(Path(store.path)).faults == ["the full-text index does not match the records"]


def test_a_salvage_rebuilds_the_parts(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *CONTENTS)
    store.close()
    execute_on_file(Path(store.path), "UPDATE records SET parts = 'other thing'")

    salvage_store(Path(store.path), empty=False)

    store = make_store(tmp_path)
    assert found(store) == [[content] for content in CONTENTS]
    assert find(store, "other") == []
    store.close()
    assert_sound(store.path)


def test_a_salvage_of_an_older_file_builds_the_parts(tmp_path: Path) -> None:
    path = make_older_file(tmp_path)

    salvage_store(path, empty=False)

    assert found(make_store(tmp_path)) == [[content] for content in CONTENTS]


def test_parts_are_searched_as_soon_as_the_first_identifier_exists(
    tmp_path: Path,
) -> None:
    """A search skips the parts index while it is empty, so the store must know at each of these
    points whether it is."""
    store = make_store(tmp_path)
    with store.transaction() as tx:
        write(tx, make_record("plain words"))
        assert not find(tx, "user")
        write(tx, make_record("userName"))
        assert contents(find(tx, "user")) == ["userName"]
    store.close()
    store = make_store(tmp_path)
    with store.transaction() as tx:
        assert contents(find(tx, "user")) == ["userName"]
    store.close()


def test_a_rolled_back_identifier_does_not_hide_a_later_one(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.begin()
    write(store, make_record("userName"))
    assert find(store, "user")
    store.rollback()
    (guid,) = write_all(store, "plain words")
    with store.transaction() as tx:
        assert not find(tx, "user")
        append_to(tx, "userName", guid=guid)
        assert contents(find(tx, "user")) == ["plain words\nuserName"]
    store.close()
