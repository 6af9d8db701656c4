"""records.undo brings records back to their state before the changes of one writer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.json import encode as to_json

from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.provenance import undo as undo_module
from memrelay.memory.models.provenance.undo import LATER, NOT_KEPT, TAKEN, UndoConflict
from memrelay.memory.records.ids import make_id
from memrelay.memory.transfer import MAX_LINES
from memrelay.memory.transfer.export import export_lines
from tests.memory.builders import MEMORY_ID, NOW, make_guid, make_store
from tests.memory.engine.test_origins import ADA, BOB, perform

CAT = Origin("cat", key="k3", profile="rest")
STATES = "SELECT guid, content, kind, tags, key, data, scope FROM records ORDER BY guid"
ENTRIES = "SELECT guid, memory FROM entries ORDER BY guid"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def undo(store: Store, **given: Any) -> tuple[int, int, list[UndoConflict]]:
    """Take all steps of an undo, in the name of Cat."""
    deleted, restored, conflicts, cursor = 0, 0, list[UndoConflict](), ""
    while cursor is not None:
        with store.transaction() as tx:
            step = perform(tx, CAT, "records.undo", cursor=cursor, **given)
        deleted, restored = deleted + step.deleted, restored + step.restored
        conflicts += step.conflicts
        cursor = step.next_cursor
    return deleted, restored, conflicts


def rows(store: Store, sql: str = STATES) -> list[tuple[Any, ...]]:
    with store.transaction() as tx:
        tx.records.flush()
        return tx.connection.execute(sql).fetchall()


def change(store: Store, origin: Origin, name: str, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, origin, name, **given)


def test_the_changes_of_a_writer_are_undone_and_a_repeat_changes_nothing(store: Store) -> None:
    kept, edited, gone = (
        change(store, ADA, "records.create", content=text).guid for text in ("a", "b", "c")
    )
    before = rows(store)
    change(store, BOB, "records.create", content="new")
    change(store, BOB, "records.update", guid=edited, content="x", tags=["t"])
    change(store, BOB, "records.append", guid=edited, content="y")
    change(store, BOB, "records.delete", guid=gone)
    after = rows(store)

    assert undo(store, source="bob", label="one", dry_run=False)[:2] == (1, 2)
    assert rows(store) == before
    assert undo(store, source="bob", label="two") == (0, 0, [])
    assert undo(store, source="inbox", label="two") == (0, 0, [])

    # An undo is a change too.
    assert undo(store, way_in="undo:one", label="three")[2] == []
    assert rows(store) == after
    assert undo(store, way_in="undo:one", label="four") == (0, 0, [])
    assert undo(store, source="bob", label="five")[:2] == (1, 2)
    assert rows(store) == before
    assert kept in {guid for guid, *_ in before}


def test_a_record_that_another_writer_changed_later_is_a_conflict(store: Store) -> None:
    first = change(store, ADA, "records.create", content="a").guid
    change(store, BOB, "records.update", guid=first, content="b")
    change(store, ADA, "records.update", guid=first, content="c")
    other = change(store, BOB, "records.create", content="d").guid
    change(store, ADA, "records.delete", guid=other)
    before = rows(store)

    found = undo(store, source="bob")

    assert found == (0, 0, [UndoConflict(guid, LATER, "ada") for guid in sorted((first, other))])
    assert rows(store) == before


def test_a_period_ends_the_selection(store: Store) -> None:
    guid = change(store, ADA, "records.create", content="a").guid
    with store.transaction() as tx:
        tx.connection.execute("UPDATE moments SET at_ms = ?", (NOW - 1000,))
    change(store, BOB, "records.update", guid=guid, content="b")
    change(store, BOB, "records.create", content="c")

    assert undo(store, until=str(NOW - 1000), source="bob") == (0, 0, [])
    assert undo(store, since=str(NOW - 1000))[:2] == (1, 1)
    assert [content for _, content, *_ in rows(store)] == ["a"]
    assert undo(store, since=str(NOW - 1000)) == (0, 0, [])


def test_a_state_that_is_no_longer_kept_is_listed(store: Store) -> None:
    lost = change(store, ADA, "records.create", content="a").guid
    change(store, BOB, "records.update", guid=lost, content="b")
    with store.transaction() as tx:
        tx.records.versions.forget(lost)
    assert undo(store, source="bob") == (0, 0, [UndoConflict(lost, NOT_KEPT, "bob")])


def test_a_record_that_an_import_merged_into_is_not_deleted(store: Store) -> None:
    with store.transaction() as tx:
        memory = perform(tx, ADA, "memories.create", name="notes")
        entry = {"memory_id": memory.id, "content": "Customer prefers email contact"}
        perform(tx, ADA, "entries.create", **entry)
    exported = [to_builtins(line) for line in export_lines(Path(store.path), MEMORY_ID, NOW)]
    (line,) = [line for line in exported if "record" in line]
    text = "The customer prefers contact by email"
    line["record"] |= {"guid": make_guid(), "content": text}
    lines = [to_json(one).decode() for one in exported]
    how = {"skip_conflicts": True, "merge_entries": True, "label": "notes"}
    assert change(store, BOB, "records.import", lines=lines, **how).merged == 1
    with store.transaction() as tx:
        for guid, *_ in tx.connection.execute("SELECT guid FROM records").fetchall():
            tx.records.versions.forget(guid)
    before = rows(store)

    _, _, conflicts = undo(store, way_in="import:notes")

    assert [one.reason for one in conflicts] == [NOT_KEPT]
    assert rows(store) == before


def test_a_step_ends_when_it_has_read_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    guids = sorted(change(store, BOB, "records.create", content="x" * 1000).guid for _ in range(5))
    monkeypatch.setattr(undo_module, "MAX_READ", 1500)
    with store.transaction() as tx:
        step = perform(tx, CAT, "records.undo", source="bob", label="one")
    assert (step.deleted, step.next_cursor) == (2, guids[1])
    assert undo(store, source="bob", label="one")[:2] == (3, 0)
    assert rows(store) == []


def put_document(store: Store, origin: Origin, text: str) -> None:
    """Store the document with the uri `u`. A chunk has at most 1,200 characters."""
    change(store, origin, "documents.put", collection="c", uri="u", text=text)


@pytest.mark.parametrize(
    ("texts", "after"),
    [
        # Bob's text has more chunks, less chunks, and other chunks that Cat keeps.
        (("a " * 1000, "b " * 3000), 0),
        (("a " * 3000, "b " * 1000), 1),
        (("a " * 3000, "b " * 3000, "c " * 500 + "b " * 2500), 2),
        (("a " * 1000, "b " * 3000, "c " * 500 + "b " * 2500), 2),
    ],
)
def test_a_document_goes_back_as_a_whole_or_not_at_all(
    store: Store, texts: tuple[str, ...], after: int
) -> None:
    for origin, text in zip((ADA, BOB, CAT), texts, strict=False):
        put_document(store, origin, text)

    undo(store, source="bob", label="one")

    document = change(store, ADA, "documents.get", collection="c", uri="u")
    assert document.text == texts[after]
    assert undo(store, source="bob", label="two")[:2] == (0, 0)


def test_chunks_are_not_restored_into_another_document(store: Store) -> None:
    put_document(store, ADA, "a " * 3000)
    change(store, BOB, "documents.delete", collection="c", uri="u")
    put_document(store, CAT, "c")
    undo(store, source="bob")
    assert change(store, ADA, "documents.get", collection="c", uri="u").text == "c"


def test_a_deleted_document_comes_back(store: Store) -> None:
    put_document(store, ADA, "a " * 3000)
    change(store, BOB, "documents.delete", collection="c", uri="u")
    assert undo(store, source="bob")[2] == []
    assert change(store, ADA, "documents.get", collection="c", uri="u").text == "a " * 3000


def test_a_record_whose_key_is_taken_now_is_listed(store: Store) -> None:
    item = {"scope": "s", "key": "k", "data": {"value": {"a": 1}}}
    (first,) = change(store, ADA, "records.put", items=[item]).guids
    change(store, BOB, "records.remove", scope="s", keys=["k"])
    change(store, ADA, "records.put", items=[item])

    assert undo(store, source="bob") == (0, 0, [UndoConflict(first, TAKEN, "bob")])


def test_a_condition_is_required(store: Store) -> None:
    with pytest.raises(Refused, match="no condition"):
        undo(store)


@pytest.mark.parametrize(
    ("imported", "others"), [(300, 100), pytest.param(10_000, 1000, marks=pytest.mark.slow)]
)
def test_exactly_an_import_is_undone(
    store: Store, tmp_path: Path, imported: int, others: int
) -> None:
    lines, guids = make_lines(tmp_path / "from", imported)
    with store.transaction() as tx:
        own = [
            perform(tx, ADA, "records.create", content=f"own {number}").guid
            for number in range(others)
        ]
    with store.transaction() as tx:
        for at in range(0, len(lines), MAX_LINES):
            some = lines[at : at + MAX_LINES]
            perform(tx, BOB, "records.import", lines=some, label="notes")
    on_imported = others // 10
    with store.transaction() as tx:
        for guid in guids[:on_imported]:
            perform(
                tx,
                ADA,
                "entries.update",
                id=make_id("me", MEMORY_ID, guid),
                content=f"better {guid}",
            )
        for guid in own[on_imported:]:
            perform(tx, ADA, "records.update", guid=guid, content=f"changed {guid}")
    before = [row for row in rows(store) if row[0] not in guids[on_imported:]]

    deleted, restored, conflicts = undo(store, way_in="import:notes")

    assert (restored, len(conflicts)) == (0, on_imported)
    # With the named memory of the entries, which is no record.
    assert deleted == imported - on_imported
    assert {one.guid for one in conflicts} == set(guids[:on_imported])
    assert rows(store) == before
    assert {guid for guid, _ in rows(store, ENTRIES)} == set(guids[:on_imported])
    again = undo(store, way_in="import:notes")
    assert again[:2] == (0, 0) and len(again[2]) == on_imported


def make_lines(root: Path, count: int) -> tuple[list[str], list[str]]:
    """Return the lines of an export with so many entries, and their guids."""
    store = make_store(root)
    with store.transaction() as tx:
        memory = perform(tx, BOB, "memories.create", name="notes")
        perform(tx, BOB, "entries.create", memory_id=memory.id, content="an entry")
    store.close()
    exported = [to_builtins(line) for line in export_lines(Path(store.path), MEMORY_ID, NOW)]
    (entry,) = [line for line in exported if "record" in line]
    lines, guids = [line for line in exported if line is not entry], []
    for number in range(count):
        guids.append(make_guid())
        new = {"guid": guids[-1], "content": f"entry {number}"}
        lines.append(entry | {"record": entry["record"] | new})
    return [to_json(line).decode() for line in lines], guids


@pytest.mark.parametrize("change_it", ["records.update", "records.delete"])
def test_policies_count_a_restored_state_once(store: Store, change_it: str) -> None:
    guids = [change(store, BOB, "records.create", content=text).guid for text in "ab"]
    for guid in guids:
        more = {"content": "x"} if change_it == "records.update" else {}
        change(store, ADA, change_it, guid=guid, **more)
    policy = {"name": "flood", "match": {}, "action": {"limit": "1/60s"}}
    change(store, CAT, "policies.set", policy=policy)

    _, restored, conflicts = undo(store, key=ADA.key)

    assert restored == 1
    assert ["flood" in one.reason for one in conflicts] == [True]
