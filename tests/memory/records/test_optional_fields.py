"""The optional fields of a record: key, owner, data, in_context, thread and seq."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memrelay.memory.engine.copy import inspect
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused, ResultTooLarge, VersionConflict
from memrelay.memory.operations import all_operations
from memrelay.memory.records.data import MOST_BYTES
from tests.memory.builders import NOW, assert_sound, fresh_store, make_store, perform, write_all
from tests.memory.records.filtering import keys, values

ALL = {"key": "k", "owner": "ada", "data": {"a": 1}, "in_context": True}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def create(store: Store, **fields: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, "records.create", content="tea", **fields)


def update(store: Store, guid: str, **fields: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, "records.update", guid=guid, **fields)


def test_optional_fields_are_empty_by_default(store: Store) -> None:
    plain, full = create(store), create(store, **ALL, thread="t", seq=7)

    assert (plain.key, plain.owner, plain.data, plain.in_context) == (None, None, {}, False)
    assert (plain.thread, plain.seq, full.thread, full.seq) == (None, None, "t", 7)
    assert (full.key, full.owner, full.data, full.in_context) == ("k", "ada", {"a": 1}, True)
    assert list(perform(store, "records.list").items) == [plain, full]
    assert {
        hit.record.guid: hit.record for hit in perform(store, "records.search", query="tea").items
    } == {plain.guid: plain, full.guid: full}


def test_each_field_can_be_changed_and_cleared_with_a_new_version(store: Store) -> None:
    made = create(store, thread="t")
    versions = {made.version}
    changes: list[dict[str, Any]] = [
        {"key": "k"},
        {"owner": "ada"},
        {"data": {"a": 1}},
        {"data": {"a": True}},
        {"in_context": True},
        {"key": "K"},
        {"owner": "", "key": "ada"},
    ]
    for count, change in enumerate(changes, 2):  # all in the same millisecond
        changed = update(store, made.guid, **change)
        versions.add(changed.version)
        assert len(versions) == count, change
        assert perform(store, "records.get", guid=made.guid) == changed
        assert (
            update(store, made.guid, now_ms=NOW + 9, **change) == changed
        )  # a repeated update changes nothing

    emptied = update(store, made.guid, key="", owner="", data={}, in_context=False)
    assert (
        replace(emptied, updated_at=made.updated_at, version=made.version) == made
        and emptied.version not in versions
    )
    assert (emptied.thread, emptied.seq) == ("t", 0)
    with store.transaction() as tx, pytest.raises(VersionConflict):
        perform(tx, "records.delete", guid=made.guid, if_version=["x"])


def test_turns_with_and_without_optional_fields_are_numbered_together(store: Store) -> None:
    with store.transaction() as tx:
        places = [
            perform(tx, "records.create", content="tea", thread="t", **more).seq
            for more in ({}, ALL, {}, ALL)
        ]
    again = [
        create(store, thread="t").seq,
        create(store, thread="t", seq=2**63 - 1).seq,
        create(store, thread="t", **ALL).seq,
    ]

    assert (places, again) == ([0, 1, 2, 3], [4, 2**63 - 1, 2**63 - 1])
    with store.transaction() as tx, pytest.raises(Refused, match="set `thread` too"):
        perform(tx, "records.create", content="tea", seq=1)


def test_a_record_with_optional_fields_can_be_edited_and_appended_to(
    store: Store,
) -> None:
    made = create(store, **ALL)
    with store.transaction() as tx:
        perform(tx, "records.append", guid=made.guid, content="milk")
    changed = update(store, made.guid, kind="k")

    assert (changed.content, changed.data, changed.key) == ("tea\nmilk", {"a": 1}, "k")
    store.close()
    assert inspect(Path(store.path)).guids == []
    assert_sound(store.path)


@pytest.mark.parametrize(
    "change",
    [
        "key = key || 'x'",
        "owner = NULL",
        "data = '{}'",
        "in_context = 0",
        "key = owner, owner = key",
    ],
)
def test_damage_to_a_field_is_found_by_inspection(tmp_path: Path, change: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")
    made = create(store, **ALL)
    store.close()
    assert inspect(Path(store.path)).guids == []
    connection = apsw.Connection(store.path)
    connection.execute(f"UPDATE records SET {change} WHERE row = 2")
    connection.close()

    assert inspect(Path(store.path)).guids == [made.guid]


@given(st.dictionaries(keys, values, max_size=4))
def test_data_is_read_back_unchanged(data: dict[str, Any]) -> None:
    with fresh_store() as store:
        made = create(store, data=data)

        assert (
            repr(made.data)
            == repr(perform(store, "records.get", guid=made.guid).data)
            == repr(data)
        )


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        ({"a": {"b": [1, 2**63]}}, ("data", "a", "b", 1), "64 bits"),
        ({"a": -(2**63) - 1}, ("data", "a"), "64 bits"),
        ({"a": float("inf")}, ("data", "a"), "must be finite"),
        ({"a": {"x": float("nan")}}, ("data", "a", "x"), "must be finite"),
        ({"a": "\ud800"}, ("data", "a"), "surrogate"),
        ({"a": {"\ud800": 1}}, ("data", "a"), "valid Unicode texts"),
        ({"a\0b": 1}, ("data",), "without the character NUL"),
        ({"a": {1: 2}}, ("data", "a"), "valid Unicode texts"),
        ({"a": {1, 2}}, ("data", "a"), "a JSON value"),
        ({"a": "x" * MOST_BYTES}, ("data",), f"more than {MOST_BYTES} bytes"),
        ([1], ("data",), "dictionary"),
    ],
)
def test_data_that_cannot_round_trip_is_rejected(
    data: Any, place: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        all_operations()["records.create"].adapter.validate_python({"content": "tea", "data": data})

    (fault,) = raised.value.errors()
    assert fault["loc"] == place and message in fault["msg"]


def test_cyclic_data_is_rejected() -> None:
    data: dict[str, Any] = {}
    data["a"] = data

    with pytest.raises(ValidationError, match="nested more than 16 deep"):
        all_operations()["records.create"].adapter.validate_python({"content": "tea", "data": data})


def test_data_counts_toward_the_result_size(store: Store) -> None:
    made = [create(store, data={"a": "x" * 1000}) for _ in range(3)]

    assert len(perform(store, "records.list", result_bytes=2600).items) == 2
    for name, given_fields in (
        ("records.search", {"query": "tea"}),
        ("records.get", {"guid": made[0].guid}),
    ):
        with pytest.raises(ResultTooLarge):
            perform(store, name, result_bytes=900, **given_fields)


def test_the_history_keeps_and_restores_optional_fields(store: Store) -> None:
    made = create(store, **ALL, thread="t", expires_at="2100-01-01")
    update(store, made.guid, data={"b": 2}, key="", in_context=False)
    with store.transaction() as tx:
        perform(tx, "records.delete", guid=made.guid)

    gone = perform(
        store,
        "records.list",
        deleted=True,
        filter={"data.b": {"eq": 2}, "expires_at": {"gt": "2099-12-31"}},
    )
    assert [(one.data, one.key, one.thread) for one in gone.items] == [({"b": 2}, None, "t")]
    assert (
        perform(store, "records.list", deleted=True, filter={"data.a": {"exists": True}}).total == 0
    )
    states = perform(store, "records.history", guid=made.guid).items
    assert [state.record and state.record.data for state in states] == [None, {"b": 2}, {"a": 1}]

    with store.transaction() as tx:
        back = perform(tx, "records.restore", guid=made.guid, number=1)
    assert (back.data, back.key, back.in_context, back.seq) == ({"a": 1}, "k", True, 0)
    store.close()
    assert inspect(Path(store.path)).guids == []


def test_a_turn_deleted_in_the_same_transaction_does_not_affect_the_next_seq(
    store: Store,
) -> None:
    with store.transaction() as tx:
        gone = perform(tx, "records.create", content="tea", thread="t", seq=27)
        perform(tx, "records.delete", guid=gone.guid)

        assert perform(tx, "records.create", content="tea", thread="t").seq == 0


def test_a_time_after_the_year_9999_is_returned_as_its_last_millisecond(store: Store) -> None:
    write_all(store, "from the future", now_ms=10**15)

    (found,) = perform(store, "records.list").items
    assert found.created_at == "9999-12-31T23:59:59.999Z"


def test_a_distant_expiry_time_keeps_its_milliseconds(store: Store) -> None:
    ends = [f"2999-01-01T00:00:00.{ms:03}Z" for ms in range(100)]

    assert [create(store, expires_at=end).expires_at for end in ends] == ends
