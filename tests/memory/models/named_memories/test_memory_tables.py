# ruff: noqa: RUF001  letters of several scripts
"""The tables next to the records of named memories stay consistent with the records under every
operation."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.models.named_memories.table import MOST_RECORDS
from memrelay.memory.records.ids import guid_of
from memrelay.memory.transfer.salvage import salvage_store
from tests.memory.builders import MEMORY_ID, make_store, perform, write_all

FACT = "green tea"


def run(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def guid_of_entry(entry: Any) -> str:
    return guid_of("me", MEMORY_ID, entry.id)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return list(store._connection.execute(sql))


@pytest.mark.parametrize("change", ["update", "restore"])
def test_an_entry_in_the_row_of_a_former_entry_is_confirmed(tmp_path: Path, change: str) -> None:
    store = make_store(tmp_path)
    memory = run(store, "memories.create", name="notes").id
    if change == "update":
        record = guid_of_entry(run(store, "entries.create", memory_id=memory, content="first"))
        run(store, "records.update", guid=record, kind="note")
    else:
        record = run(store, "records.create", content="first").guid
        run(store, "records.update", guid=record, kind="entry", scope=memory)
        run(store, "entries.create", memory_id=memory, content="first")
        run(store, "records.restore", guid=record, number=1)
    run(store, "records.delete", guid=record)
    store.close()
    store = make_store(tmp_path)

    written = [run(store, "entries.create", memory_id=memory, content=FACT) for _ in range(3)]

    assert [(one.action, one.confirmations) for one in written] == [
        ("created", 0),
        ("skipped", 1),
        ("skipped", 2),
    ]
    store.close()


def test_a_salvage_keeps_entry_details_and_drops_those_of_lost_records(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    memory = run(store, "memories.create", name="notes").id
    kept = run(store, "entries.create", memory_id=memory, content=FACT)
    run(store, "entries.create", memory_id=memory, content=FACT)
    with store.transaction():
        store._connection.execute(
            "INSERT INTO entries(guid, memory, digested) VALUES ('lost', ?, 1)", (memory,)
        )
    store.close()
    salvage_store(Path(store.path), empty=False)
    store = make_store(tmp_path)

    repeated = run(store, "entries.create", memory_id=memory, content=f" {FACT.upper()}.")

    assert (repeated.action, repeated.id, repeated.confirmations, repeated.why) == (
        "skipped",
        kept.id,
        2,
        "the same text except for case, spaces or punctuation",
    )
    assert (
        rows(store, "SELECT guid FROM entries")
        == rows(store, "SELECT guid FROM entry_lines")
        == [(guid_of_entry(kept),)]
    )
    store.close()


@pytest.mark.parametrize(
    ("known", "repeated", "other"),
    [
        ("मोहन पुणे में रहता है", "मोहन पुणे में रहता है।", "माँ मन से पानी रही हो"),
        ("هو يسكن في القاهرة", "هو يسكن في القاهرة۔", "قلم"),
    ],
)
def test_a_fact_in_a_non_latin_script_is_recognized_among_many(
    tmp_path: Path, known: str, repeated: str, other: str
) -> None:
    store = make_store(tmp_path)
    memory = run(store, "memories.create", name="notes").id
    run(store, "entries.create", memory_id=memory, content=known)
    write_all(
        store,
        *(f"{other} {number}" for number in range(MOST_RECORDS + 1)),
        kind="entry",
        scope=guid_of("mem", MEMORY_ID, memory),
    )

    found = run(store, "entries.create", memory_id=memory, content=repeated)

    assert (found.action, found.content) == ("skipped", known)
