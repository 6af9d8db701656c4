"""Earlier states of records: how they are kept, how many, and what of them survives damage."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.errors import NotThere, Refused, ResultTooLarge, VersionDiffers
from memrelay.memory.files.salvage import salvage_store
from memrelay.memory.operations.records_delete import DeleteInput, delete
from memrelay.memory.operations.records_write import write
from memrelay.memory.retention import DAY_MS, delete_expired
from memrelay.memory.sqlite.connection import APPLICATION_ID, migrations
from memrelay.memory.sqlite.copy import inspect
from memrelay.memory.sqlite.store import Store
from memrelay.memory.sqlite.versions import KEPT, TOGETHER
from memrelay.memory.timestamps import as_time
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


def do(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def told(store: Store, guid: str) -> list[tuple[int, str | None, str | None]]:
    """(number, content, what ended it), the latest first."""
    return [
        (one.number, one.record and one.record.content, one.change)
        for one in do(store, "records.history", guid=guid, limit=1000).items
    ]


def raw(path: str | Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_who_changed_what_when_and_why_is_told(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = do(store, "records.create", content="tea").guid
    do(
        store,
        "records.update",
        guid=guid,
        content="coffee",
        reason="tired",
        actor="ada",
        now_ms=NOW + 1,
    )
    do(store, "records.delete", guid=guid, reason="gone off", actor="bob", now_ms=NOW + 2)
    do(store, "records.restore", guid=guid, actor="ada", now_ms=NOW + 3)

    history = do(store, "records.history", guid=guid, now_ms=NOW + 4)

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
        as_time(NOW + 3),
        as_time(NOW + 2),
        as_time(NOW + 1),
    ]
    assert history.items[0].record.created_at == as_time(NOW) != history.items[0].record.updated_at


def test_pages_of_a_history_join_without_a_gap(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = do(store, "records.create", content="0").guid
    for number in range(1, 8):
        do(store, "records.update", guid=guid, content=str(number))

    pages, cursor = [], ""
    while cursor is not None:
        page = do(store, "records.history", guid=guid, limit=3, cursor=cursor)
        pages.append([one.record.content for one in page.items])
        cursor = page.next_cursor

    assert pages == [["7", "6", "5"], ["4", "3", "2"], ["1", "0"]] and page.total == 8
    small = do(store, "records.history", guid=guid, result_bytes=300)
    assert len(small.items) == 1 and small.next_cursor == "8"


def test_a_record_that_is_appended_to_ten_thousand_times_keeps_its_last_states_without_their_text(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "0")
    for batch in range(40):
        with store.transaction() as tx:
            for number in range(250):
                append_to(tx, str(batch * 250 + number + 1), guid=guid)

    states = told(store, guid)

    whole = states[0][1].split("\n")
    assert whole == [str(number) for number in range(10_001)]
    assert KEPT < len(states) <= KEPT + TOGETHER
    assert all(content.split("\n") == whole[:number] for number, content, _ in states)
    assert raw(store.path, "SELECT count(content) FROM versions") == [(0,)]
    assert do(store, "records.restore", guid=guid, number=9_950).content.endswith("\n9949")


def test_texts_that_do_not_go_on_are_kept_whole(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "a\0é")
    for content in ("a\0é😀", "b", "", "b😀\0x"):
        if content:
            do(store, "records.update", guid=guid, content=content)
    do(store, "records.update", guid=guid, kind="other")

    assert [one[1] for one in told(store, guid)] == ["b😀\0x", "b😀\0x", "b", "a\0é😀", "a\0é"]


def test_a_turn_that_is_brought_back_has_its_place_though_another_has_taken_it(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        guids = [write(tx, make_record(str(seq), thread="t")) for seq in range(3)]
        delete(tx, DeleteInput(guids[1]))
        write(tx, make_record("another", thread="t", seq=1))
    back = do(store, "records.restore", guid=guids[1])
    with store.transaction() as tx:
        write(tx, make_record("last", thread="t"))

    seqs = raw(store.path, "SELECT content, seq FROM records WHERE thread = 't' ORDER BY seq, row")
    assert seqs == [("0", 0), ("another", 1), ("1", 1), ("2", 2), ("last", 3)]
    assert (back.guid, back.created_at) == (guids[1], as_time(NOW))
    assert_sound(store.path)


def test_a_record_that_is_there_gets_an_earlier_state_as_one_more_change(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guid = do(store, "records.create", content="tea", tags=["a"], kind="fact").guid
    now = do(store, "records.update", guid=guid, content="coffee", tags=["b"], kind="note")

    with pytest.raises(VersionDiffers):
        do(store, "records.restore", guid=guid, number=1, if_version=["other"])
    with pytest.raises(Refused, match="is not deleted: name the `number`"):
        do(store, "records.restore", guid=guid)
    with pytest.raises(NotThere, match="state 7"):
        do(store, "records.restore", guid=guid, number=7)
    back = do(store, "records.restore", guid=guid, number=1, if_version=[now.version])
    same = do(store, "records.restore", guid=guid, number=3)

    assert (back.content, back.tags, back.kind) == ("tea", ("a",), "fact") and same == back
    assert told(store, guid) == [(3, "tea", None), (2, "coffee", "restore"), (1, "tea", "update")]


def test_a_state_that_is_too_long_for_an_answer_is_not_restored(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "x" * 1000)
    do(store, "records.delete", guid=guid)

    with pytest.raises(ResultTooLarge):
        do(store, "records.restore", guid=guid, result_bytes=100)
    assert read_all(store) == []


def test_a_kind_that_was_deleted_is_listed_and_brought_back(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    guids = write_all(store, "a\0b", "b", "c", kind="log")
    kept = write_all(store, "d")
    with store.transaction() as tx:
        tx.records.acts(NOW + 5, "keeper")
        assert delete(tx, DeleteInput(kind="log")) == 3

    listed = do(store, "records.list", deleted=True, kind="log", limit=2)
    rest = do(store, "records.list", deleted=True, kind="log", cursor=listed.next_cursor)
    for guid in guids:
        do(store, "records.restore", guid=guid)

    assert [one.guid for one in (*listed.items, *rest.items)] == guids and listed.total == 3
    assert [one.guid for one in read_all(store)] == [*kept, *guids]
    assert do(store, "records.list", deleted=True).total == 0
    assert do(store, "records.history", guid=guids[0]).items[2].actor == "keeper"
    assert_sound(store.path)


def test_what_is_not_committed_leaves_no_state(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    store.begin()
    append_to(store, "x", guid=guid)
    perform(store, "records.delete", guid=guid)
    store.rollback()

    assert told(store, guid) == [(1, "tea", None)]
    assert raw(store.path, "SELECT count(*) FROM versions") == [(0,)]


def test_states_are_reaped_after_their_days_the_oldest_first(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    gone, guid = write_all(store, "gone", "tea")
    do(store, "records.delete", guid=gone)
    do(store, "records.update", guid=guid, content="coffee", now_ms=NOW + DAY_MS)

    assert delete_expired(store, NOW + DAY_MS - 1, 1).gone == 0
    assert delete_expired(store, NOW + DAY_MS + 1, 1) == (1, NOW + 2 * DAY_MS)
    assert told(store, guid) == [(2, "coffee", None), (1, "tea", "update")]
    with pytest.raises(NotThere, match="nothing is kept"):
        do(store, "records.restore", guid=gone)
    delete_expired(store, NOW + 3 * DAY_MS, 1)
    assert told(store, guid) == [(2, "coffee", None)]


def test_a_text_that_went_with_a_lost_row_is_not_told_as_another(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    for content in ("tea and milk", "coffee", "water"):
        do(store, "records.update", guid=guid, content=content)
    store.close()
    raw(store.path, "DELETE FROM versions WHERE number = 2")

    assert told(make_store(tmp_path), guid) == [(4, "water", None), (3, "coffee", "update")]


def test_damage_of_an_earlier_state_is_found_and_a_salvage_keeps_what_there_is(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "a rather recognizable text")
    do(store, "records.update", guid=guid, content="b")
    store.close()
    path = Path(store.path)

    assert inspect(path).guids == []
    replace_text(path, b"recognizable text", b"recognisable text")
    assert inspect(path).guids == [guid]
    assert salvage_store(path, empty=False).rows["versions"] == 1
    assert [one[1] for one in told(make_store(tmp_path), guid)] == [
        "b",
        "a rather recognisable text",
    ]


def test_a_salvage_mends_what_would_keep_every_list_from_being_told(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for number in range(3):
        guid = do(
            store,
            "records.create",
            content=f"tea {number}",
            tags=[f"tag{number}"],
            data={"n": number},
        ).guid
    do(store, "records.update", guid=guid, content="coffee")
    do(store, "memories.create", name="facts", tags=["customer"])
    store.close()
    path = Path(store.path)
    for was, now in (
        (b'["tag0"]', b'["tag0"!'),
        (b'{"n":1}', b'["n",1}'),
        (b'["tag2"]', b'["tag\xff"]'),
        (b'["customer"]', b'["customer",'),
    ):
        replace_text(path, was, now)
    raw(path, f"UPDATE records SET created_at = {2**60} WHERE content = 'coffee'")

    salvaged = salvage_store(path, empty=False)

    store = make_store(tmp_path)
    found = {one.content: (one.tags, one.data) for one in do(store, "records.list", limit=10).items}
    assert found == {
        "tea 0": ((), {"n": 0}),
        "tea 1": (("tag1",), {}),
        "coffee": (("tag\ufffd",), {"n": 2}),
    }
    assert len(salvaged.guids) == 3
    assert [one.name for one in do(store, "memories.list").items] == ["facts"]


def test_an_older_file_gets_histories_when_it_is_opened_or_salvaged(tmp_path: Path) -> None:
    path = Path(make_store(tmp_path).path)
    for way in ("opened", "salvaged"):
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
        if way == "salvaged":
            salvage_store(path, empty=False)
        store = make_store(tmp_path)
        do(store, "records.update", guid="g", content="coffee")

        assert told(store, "g") == [(2, "coffee", None), (1, "tea", "update")]
        store.close()
