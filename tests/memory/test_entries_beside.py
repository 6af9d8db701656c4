# ruff: noqa: RUF001  # letters of several scripts
"""What stands beside the records of named memories goes with them, and comes with them, whoever
changes a record."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.files.salvage import salvage_store
from memrelay.memory.records.ids import guid_of
from memrelay.memory.sqlite.memories import MOST_RECORDS
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import MEMORY_ID, make_store, perform, write_all

FACT = "green tea"


def do(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def guid(entry: Any) -> str:
    return guid_of("me", MEMORY_ID, entry.id)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return list(store._connection.execute(sql))


@pytest.mark.parametrize("way", ["update", "restore"])
def test_an_entry_in_the_row_of_one_that_became_another_record_is_found_and_confirmed(
    tmp_path: Path, way: str
) -> None:
    store = make_store(tmp_path)
    memory = do(store, "memories.create", name="notes").id
    if way == "update":
        record = guid(do(store, "entries.create", memory_id=memory, content="first"))
        do(store, "records.update", guid=record, kind="note")
    else:
        record = do(store, "records.create", content="first").guid
        do(store, "records.update", guid=record, kind="entry", scope=memory)
        do(store, "entries.create", memory_id=memory, content="first")
        do(store, "records.restore", guid=record, number=1)
    do(store, "records.delete", guid=record)
    store.close()
    store = make_store(tmp_path)

    written = [do(store, "entries.create", memory_id=memory, content=FACT) for _ in range(3)]

    assert [(one.action, one.confirmations) for one in written] == [
        ("created", 0),
        ("skipped", 1),
        ("skipped", 2),
    ]
    store.close()


def test_a_salvaged_store_knows_what_its_entries_say_and_nothing_of_those_that_are_lost(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    memory = do(store, "memories.create", name="notes").id
    kept = do(store, "entries.create", memory_id=memory, content=FACT)
    do(store, "entries.create", memory_id=memory, content=FACT)
    with store.transaction():
        store._connection.execute(
            "INSERT INTO entries(guid, memory, digested) VALUES ('lost', ?, 1)", (memory,)
        )
    store.close()
    salvage_store(Path(store.path), empty=False)
    store = make_store(tmp_path)

    again = do(store, "entries.create", memory_id=memory, content=f" {FACT.upper()}.")

    assert (again.action, again.id, again.confirmations, again.why) == (
        "skipped",
        kept.id,
        2,
        "the same text",
    )
    assert (
        rows(store, "SELECT guid FROM entries")
        == rows(store, "SELECT guid FROM entry_lines")
        == [(guid(kept),)]
    )
    store.close()


@pytest.mark.parametrize(
    ("known", "again", "other"),
    [
        ("मोहन पुणे में रहता है", "मोहन पुणे में रहता है।", "माँ मन से पानी रही हो"),
        ("هو يسكن في القاهرة", "هو يسكن في القاهرة۔", "قلم"),
    ],
)
def test_a_fact_is_known_again_among_many_in_its_script(
    tmp_path: Path, known: str, again: str, other: str
) -> None:
    store = make_store(tmp_path)
    memory = do(store, "memories.create", name="notes").id
    do(store, "entries.create", memory_id=memory, content=known)
    write_all(
        store,
        *(f"{other} {number}" for number in range(MOST_RECORDS + 1)),
        kind="entry",
        scope=guid_of("mem", MEMORY_ID, memory),
    )

    found = do(store, "entries.create", memory_id=memory, content=again)

    assert (found.action, found.content) == ("skipped", known)
