"""Earlier states of records: how they are stored, how many are kept, and what survives damage."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.connection import APPLICATION_ID, migrations
from memrelay.memory.engine.copy import inspect
from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.engine.versions import MAX_VERSIONS, TOGETHER
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge, VersionConflict
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import write
from memrelay.memory.transfer.salvage import salvage_store
from tests.memory.builders import (
    NOW,
    append_to,
    assert_sound,
    make_record,
    make_store,
    perform,
    read_all,
    write_all,
)
from tests.support.damage import replace_text


def run(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def list_states(store: Store, guid: str) -> list[tuple[int, str | None, str | None]]:
    """Return (number, content, the change that ended the state), latest first."""
    return [
        (one.number, one.record and one.record.content, one.change)
        for one in run(store, "records.history", guid=guid, limit=1000).items
    ]


def fetch_all(path: str | Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_the_history_shows_actor_time_and_reason_of_each_change(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = run(store, "records.create", content="tea").guid
    run(
        store,
        "records.update",
        guid=guid,
        content="coffee",
        reason="tired",
        actor="ada",
        now_ms=NOW + 1,
    )
    run(store, "records.delete", guid=guid, reason="gone off", actor="bob", now_ms=NOW + 2)
    run(store, "records.restore", guid=guid, actor="ada", now_ms=NOW + 3)

    history = run(store, "records.history", guid=guid, now_ms=NOW + 4)

    held = [
        (one.number, one.record and one.record.content, one.change, one.actor, one.reason)
        for one in history.items
    ]
    assert held == [
        (4, "coffee", None, None, None),
        (3, None, "restore", "ada", None),
        (2, "coffee", "delete", "bob", "gone off"),
        (1, "tea", "update", "ada", "tired"),
    ]
    assert [one.changed_at for one in history.items[1:]] == [
        format_time(NOW + 3),
        format_time(NOW + 2),
        format_time(NOW + 1),
    ]
    assert (
        history.items[0].record.created_at == format_time(NOW) != history.items[0].record.updated_at
    )


def test_history_pages_join_without_a_gap(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = run(store, "records.create", content="0").guid
    for number in range(1, 8):
        run(store, "records.update", guid=guid, content=str(number))

    pages, cursor = [], ""
    while cursor is not None:
        page = run(store, "records.history", guid=guid, limit=3, cursor=cursor)
        pages.append([one.record.content for one in page.items])
        cursor = page.next_cursor

    assert pages == [["7", "6", "5"], ["4", "3", "2"], ["1", "0"]] and page.total == 8
    small = run(store, "records.history", guid=guid, result_bytes=300)
    assert len(small.items) == 1 and small.next_cursor == "8"


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_appends_keep_the_last_states_without_their_text(tmp_path: Path, count: int) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "0")
    for first in range(1, count, 250):
        with store.transaction() as tx:
            for number in range(first, first + 250):
                append_to(tx, str(number), guid=guid)

    states = list_states(store, guid)

    whole = states[0][1].split("\n")
    assert whole == [str(number) for number in range(count + 1)]
    assert MAX_VERSIONS < len(states) <= MAX_VERSIONS + TOGETHER
    assert all(content.split("\n") == whole[:number] for number, content, _ in states)
    assert fetch_all(store.path, "SELECT count(content) FROM versions") == [(0,)]
    assert run(store, "records.restore", guid=guid, number=count - 50).content.endswith(
        f"\n{count - 51}"
    )


def test_a_state_that_is_not_a_prefix_of_the_next_is_stored_whole(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "a\0é")
    for content in ("a\0é😀", "b", "", "b😀\0x"):
        if content:
            run(store, "records.update", guid=guid, content=content)
    run(store, "records.update", guid=guid, kind="other")

    assert [one[1] for one in list_states(store, guid)] == [
        "b😀\0x",
        "b😀\0x",
        "b",
        "a\0é😀",
        "a\0é",
    ]


def test_a_restored_turn_returns_to_its_seq_even_if_it_is_taken(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        guids = [write(tx, make_record(str(seq), thread="t")) for seq in range(3)]
        delete(tx, DeleteInput(guids[1]))
        write(tx, make_record("another", thread="t", seq=1))
    back = run(store, "records.restore", guid=guids[1])
    with store.transaction() as tx:
        write(tx, make_record("last", thread="t"))

    seqs = fetch_all(
        store.path, "SELECT content, seq FROM records WHERE thread = 't' ORDER BY seq, row"
    )
    assert seqs == [("0", 0), ("another", 1), ("1", 1), ("2", 2), ("last", 3)]
    assert (back.guid, back.created_at) == (guids[1], format_time(NOW))
    assert_sound(store.path)


def test_restoring_an_existing_record_adds_a_change(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = run(store, "records.create", content="tea", tags=["a"], kind="fact").guid
    new = run(store, "records.update", guid=guid, content="coffee", tags=["b"], kind="note")

    with pytest.raises(VersionConflict):
        run(store, "records.restore", guid=guid, number=1, if_version=["other"])
    with pytest.raises(Refused, match="is not deleted: name the `number`"):
        run(store, "records.restore", guid=guid)
    with pytest.raises(RecordNotFound, match="state 7"):
        run(store, "records.restore", guid=guid, number=7)
    back = run(store, "records.restore", guid=guid, number=1, if_version=[new.version])
    same = run(store, "records.restore", guid=guid, number=3)

    assert (back.content, back.tags, back.kind) == ("tea", ("a",), "fact") and same == back
    assert list_states(store, guid) == [
        (3, "tea", None),
        (2, "coffee", "restore"),
        (1, "tea", "update"),
    ]


def test_a_state_beyond_the_result_size_is_not_restored(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "x" * 1000)
    run(store, "records.delete", guid=guid)

    with pytest.raises(ResultTooLarge):
        run(store, "records.restore", guid=guid, result_bytes=100)
    assert read_all(store) == []


def test_records_deleted_by_kind_can_be_listed_and_restored(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guids = write_all(store, "a\0b", "b", "c", kind="log")
    kept = write_all(store, "d")
    with store.transaction() as tx:
        tx.records.set_actor(NOW + 5, "keeper")
        assert delete(tx, DeleteInput(kind="log")) == 3

    listed = run(store, "records.list", deleted=True, kind="log", limit=2)
    rest = run(store, "records.list", deleted=True, kind="log", cursor=listed.next_cursor)
    for guid in guids:
        run(store, "records.restore", guid=guid)

    assert [one.guid for one in (*listed.items, *rest.items)] == guids and listed.total == 3
    assert [one.guid for one in read_all(store)] == [*kept, *guids]
    assert run(store, "records.list", deleted=True).total == 0
    assert run(store, "records.history", guid=guids[0]).items[2].actor == "keeper"
    assert_sound(store.path)


def test_a_rolled_back_change_leaves_no_state(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    store.begin()
    append_to(store, "x", guid=guid)
    perform(store, "records.delete", guid=guid)
    store.rollback()

    assert list_states(store, guid) == [(1, "tea", None)]
    assert fetch_all(store.path, "SELECT count(*) FROM versions") == [(0,)]


def test_states_are_deleted_after_the_retention_period(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.compose(())
    gone, guid = write_all(store, "gone", "tea")
    run(store, "records.delete", guid=gone)
    run(store, "records.update", guid=guid, content="coffee", now_ms=NOW + DAY_MS)

    assert delete_expired(store, NOW + DAY_MS - 1, 1).gone == 0
    assert delete_expired(store, NOW + DAY_MS + 1, 1) == (1, NOW + 2 * DAY_MS)
    assert list_states(store, guid) == [(2, "coffee", None), (1, "tea", "update")]
    with pytest.raises(RecordNotFound, match="nothing is kept"):
        run(store, "records.restore", guid=gone)
    delete_expired(store, NOW + 3 * DAY_MS, 1)
    assert list_states(store, guid) == [(2, "coffee", None)]


def test_a_state_whose_text_was_lost_is_not_shown_with_another_text(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    for content in ("tea and milk", "coffee", "water"):
        run(store, "records.update", guid=guid, content=content)
    store.close()
    fetch_all(store.path, "DELETE FROM versions WHERE number = 2")

    assert list_states(make_store(tmp_path), guid) == [(4, "water", None), (3, "coffee", "update")]


def test_damage_to_an_earlier_state_is_found_and_salvaged(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "a rather recognizable text")
    run(store, "records.update", guid=guid, content="b")
    store.close()
    path = Path(store.path)

    assert inspect(path).guids == []
    replace_text(path, b"recognizable text", b"recognisable text")
    assert inspect(path).guids == [guid]
    assert salvage_store(path, empty=False).rows["versions"] == 1
    assert [one[1] for one in list_states(make_store(tmp_path), guid)] == [
        "b",
        "a rather recognisable text",
    ]


def test_a_salvage_repairs_values_that_would_break_every_list(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for number in range(3):
        guid = run(
            store,
            "records.create",
            content=f"tea {number}",
            tags=[f"tag{number}"],
            data={"n": number},
        ).guid
    run(store, "records.update", guid=guid, content="coffee")
    run(store, "memories.create", name="facts", tags=["customer"])
    store.close()
    path = Path(store.path)
    for old, new in (
        (b'["tag0"]', b'["tag0"!'),
        (b'{"n":1}', b'["n",1}'),
        (b'["tag2"]', b'["tag\xff"]'),
        (b'["customer"]', b'["customer",'),
    ):
        replace_text(path, old, new)
    fetch_all(path, f"UPDATE records SET created_at = {2**60} WHERE content = 'coffee'")

    salvaged = salvage_store(path, empty=False)

    store = make_store(tmp_path)
    found = {
        one.content: (one.tags, one.data) for one in run(store, "records.list", limit=10).items
    }
    assert found == {
        "tea 0": ((), {"n": 0}),
        "tea 1": (("tag1",), {}),
        "coffee": (("tag\ufffd",), {"n": 2}),
    }
    assert len(salvaged.guids) == 3
    assert [one.name for one in run(store, "memories.list").items] == ["facts"]


def test_an_older_file_gets_histories_when_it_is_opened_or_salvaged(tmp_path: Path) -> None:
    path = Path(make_store(tmp_path).path)
    for method in ("opened", "salvaged"):
        path.unlink()
        connection = apsw.Connection(str(path))
        connection.create_scalar_function("parts_of", lambda *content: None, 1, deterministic=True)
        for number, migration in enumerate(migrations()[:7], 1):
            connection.execute(migration)
            connection.pragma("user_version", number)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute(
            "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at) "
            "VALUES ('g', 's', 'k', 'tea', 'x', 1, 1)"
        )
        connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
        connection.close()
        if method == "salvaged":
            salvage_store(path, empty=False)
        store = make_store(tmp_path)
        run(store, "records.update", guid="g", content="coffee")

        assert list_states(store, "g") == [(2, "coffee", None), (1, "tea", "update")]
        store.close()
