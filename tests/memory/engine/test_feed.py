"""The change feed: one row for each committed change, in order, with ids and no values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.features import FEED, default_features
from memrelay.memory.engine.feed import CREATED, TOGETHER, Change
from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import Refused
from memrelay.memory.operations import all_operations
from memrelay.memory.records.changes import MAX_READ
from tests.memory.builders import MEMORY_ID, NOW, append_to, make_store, perform, write_all

LONG = "tea " * 2000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def run(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def list_all(store: Store, after: int = 0) -> list[Change]:
    return store.feed.after(after, 100_000)


def types_of(store: Store, after: int = 0) -> list[str]:
    return [change.type for change in list_all(store, after)]


def test_only_homes_have_a_feed_by_default() -> None:
    stores = {
        "instances/u/memories": True,
        "instances/u/stores": True,
        "instances/u/recipes": True,
        "instances/u/langgraph": True,
        "instances/u/notes": False,
        "instances/u/stores/x": False,
        "shared/u/memories": False,
    }

    assert {name: FEED in default_features(name) for name in stores} == stores


def test_each_change_of_a_record_has_a_row_with_its_time_and_actor(store: Store) -> None:
    guid = run(store, "records.create", content="tea", actor="ada").guid
    run(store, "records.update", guid=guid, content="milk", actor="bob", now_ms=NOW + 1)
    run(store, "records.delete", guid=guid, now_ms=NOW + 2)
    run(store, "records.restore", guid=guid, now_ms=NOW + 3)
    run(store, "records.restore", guid=guid, number=1, now_ms=NOW + 4)

    assert list_all(store) == [
        Change(1, NOW, "record.created", guid, "ada", None),
        Change(2, NOW + 1, "record.updated", guid, "bob", None),
        Change(3, NOW + 2, "record.deleted", guid, "tester", None),
        Change(4, NOW + 3, "record.created", guid, "tester", '{"event":"record.restored"}'),
        Change(5, NOW + 4, "record.updated", guid, "tester", '{"event":"record.restored"}'),
    ]


def test_an_append_is_one_change_and_its_merge_is_none(store: Store) -> None:
    guid = run(store, "records.create", content=LONG).guid
    with store.transaction() as tx:
        for number in range(3):
            append_to(tx, f"more {number}", guid=guid)
    run(store, "records.search", query="more")

    assert types_of(store) == ["record.created", *["record.updated"] * 3]


def test_records_that_are_deleted_together_have_a_row_each(store: Store) -> None:
    guids = write_all(store, *map(str, range(2 * TOGETHER + 3)), kind="note")
    write_all(store, "kept", kind="other")
    with store.transaction() as tx:
        tx.records.delete_all({"kind": "note"})

    assert [one.subject for one in list_all(store, len(guids) + 1)] == guids
    assert set(types_of(store, len(guids) + 1)) == {"record.deleted"}
    assert [one.n for one in list_all(store)] == list(range(1, 2 * len(guids) + 2))


def test_named_memories_and_their_entries_have_rows(store: Store) -> None:
    memory = run(store, "memories.create", name="facts").id
    entry = run(store, "entries.create", memory_id=memory, content="Ada likes tea").id
    run(store, "memories.update", id=memory, name="people")
    run(store, "memories.delete", id=memory)

    assert [(one.type, one.subject == memory) for one in list_all(store)] == [
        ("memory.created", True),
        ("record.created", False),
        ("memory.updated", True),
        ("record.deleted", False),
        ("memory.deleted", True),
    ]
    assert entry


def test_expired_records_have_a_row_without_an_actor(store: Store) -> None:
    end = format_time(NOW + 1000)
    guid = run(store, "records.create", content="tea", expires_at=end).guid
    delete_expired(store, NOW + 2000, 90)

    assert list_all(store, 1) == [Change(2, NOW + 2000, "record.expired", guid, "", None)]


def test_a_rolled_back_transaction_leaves_no_row(store: Store) -> None:
    store.begin()
    guid = perform(store, "records.create", content="tea").guid
    perform(store, "records.delete", guid=guid)
    assert len(list_all(store)) == 2
    store.rollback()
    store.begin()
    perform(store, "records.create", content="tea")
    store.rollback()

    run(store, "records.create", content="milk")
    assert [(one.n, one.type) for one in list_all(store)] == [(1, "record.created")]
    assert (store.feed.take_last(), store.feed.take_last()) == (1, None)


def test_a_feed_that_is_off_has_no_rows(tmp_path: Path) -> None:
    store = make_store(tmp_path, "instances/u/notes")
    guid = run(store, "records.create", content="tea").guid
    run(store, "records.update", guid=guid, content="milk")
    with store.transaction() as tx:
        tx.records.announce("grant.created", "s")
        tx.records.delete_all({"kind": "note"})
    run(store, "records.erase", guids=[guid])

    assert list_all(store) == []
    assert run(store, "changes.list").enabled is False
    store.close()


def test_an_erasure_removes_the_rows_of_its_records_and_reuses_no_number(store: Store) -> None:
    first, second = (run(store, "records.create", content="tea").guid for _ in range(2))
    with store.transaction() as tx:
        tx.records.announce("grant.created", "chat:secret", {"grantee": "a2"})
    run(store, "records.erase", guids=[second])

    assert [(one.n, one.type, one.subject) for one in list_all(store)] == [
        (1, "record.created", first),
        (3, "grant.created", "chat:secret"),
        (5, "record.erased", ""),
    ]
    run(store, "records.erase", text="secret")
    run(store, "records.create", content="milk")
    assert [one.n for one in list_all(store)] == [1, 5, 6, 7]


def test_an_erasure_of_the_name_of_its_actor_reuses_no_number(store: Store) -> None:
    run(store, "records.create", content="tea", actor="ada")
    run(store, "records.erase", text="ada", actor="ada")
    run(store, "records.create", content="milk")

    assert [(one.n, one.type, one.actor) for one in list_all(store)] == [
        (3, "record.erased", ""),
        (4, "record.created", "tester"),
    ]


def test_changes_end_with_the_history_except_the_newest(store: Store) -> None:
    for day in range(3):
        run(store, "records.create", content="tea", now_ms=NOW + day * DAY_MS)

    assert delete_expired(store, NOW + DAY_MS + 1, 1) == (1, NOW + 2 * DAY_MS)
    assert [one.n for one in list_all(store)] == [2, 3]
    assert delete_expired(store, NOW + 9 * DAY_MS, 1).gone == 1
    run(store, "records.create", content="tea")
    assert [one.n for one in list_all(store)] == [3, 4]


def test_a_consumer_reads_pages_from_its_cursor(store: Store) -> None:
    guids = write_all(store, *map(str, range(5)))

    first = run(store, "changes.list", limit=2)
    second = run(store, "changes.list", after=first.next)
    nothing = run(store, "changes.list", after=second.next)

    assert [one.subject for one in (*first.items, *second.items)] == guids
    assert (first.next, first.last, first.oldest, first.enabled) == (2, 5, 1, True)
    assert (nothing.items, nothing.next) == ((), 5)
    with pytest.raises(Refused, match=r"the last change of .* is 5, .* `after`: 5"):
        run(store, "changes.list", after=6)


def test_a_page_of_some_types_continues_after_what_it_has_read(store: Store) -> None:
    with store.transaction() as tx:
        for number in range(MAX_READ + 2):
            tx.records.announce(
                "memory.created" if number % MAX_READ == 1 else CREATED, str(number)
            )

    def page(**given: Any) -> tuple[list[str], int]:
        found = run(store, "changes.list", types=["memory.created", "memory.deleted"], **given)
        return [one.subject for one in found.items], found.next

    assert page(limit=1) == (["1"], 2)
    assert page() == (["1"], MAX_READ)
    assert page(after=MAX_READ) == ([str(MAX_READ + 1)], MAX_READ + 2)


@pytest.mark.parametrize(
    ("given", "hint"),
    [("record.create", "did you mean 'record.created'"), ("x", "known: record.created, ")],
)
def test_an_unknown_type_is_refused(store: Store, given: str, hint: str) -> None:
    with pytest.raises(Refused, match=f"no change has the type '{given}'.*{hint}"):
        run(store, "changes.list", types=["record.updated", given])


def test_the_home_of_items_is_open_to_changes_list_alone() -> None:
    operations, home = all_operations(), "instances/u/stores"

    operations["changes.list"].check_store(home)
    with pytest.raises(Refused, match="holds the items of agents"):
        operations["records.list"].check_store(home)


def test_the_data_of_a_change_is_an_object(store: Store) -> None:
    with store.transaction() as tx:
        tx.records.set_actor(NOW, "ada")
        tx.records.announce("grant.created", "s1", {"grantee": "a2"})

    (change,) = run(store, "changes.list").items
    assert (change.data, change.actor, change.at) == ({"grantee": "a2"}, "ada", format_time(NOW))
    assert store.memory_id == MEMORY_ID
