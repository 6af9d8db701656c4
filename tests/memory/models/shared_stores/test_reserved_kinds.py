"""Kinds and keys of items against generic operations, restores and imports."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import KeyTaken, Refused
from tests.memory.builders import NOW
from tests.memory.models.shared_stores.access_cases import call, open_stores
from tests.memory.models.shared_stores.item_cases import get, put
from tests.pipelines.builders import faults_of, make_block

# A line of an export without its guid.
EXPORTED = {
    "number": 1,
    "scope": "a1",
    "kind": "store.item",
    "source": "a1",
    "tags": "[]",
    "created_at": NOW,
    "updated_at": NOW,
    "key": "k",
    "owner": "a1",
    "in_context": 1,
    "content": "",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with open_stores() as opened:
        yield opened


@pytest.mark.parametrize("name", ["records.create", "records.append"])
@pytest.mark.parametrize("kind", ["store.item", "store.x", "memory.fact"])
def test_generic_operations_refuse_reserved_kinds(store: Store, name: str, kind: str) -> None:
    with pytest.raises(Refused, match="is reserved"):
        call(store, name, content="tea", kind=kind)


def test_an_update_refuses_a_reserved_kind(store: Store) -> None:
    guid = call(store, "records.create", content="tea", kind="store").guid

    with pytest.raises(Refused, match="is reserved"):
        call(store, "records.update", guid=guid, kind="store.item")


def test_a_restore_refuses_a_taken_key(store: Store) -> None:
    first = put(store, "k", 1).entry
    call(store, "items.delete", agent="a1", store="a1", key="k")
    second = put(store, "k", 2).entry

    with pytest.raises(KeyTaken, match=second.guid):
        call(store, "records.restore", guid=first.guid)
    call(store, "items.delete", agent="a1", store="a1", key="k")
    call(store, "records.restore", guid=first.guid)
    assert get(store, "k").value == 1


def test_an_import_refuses_a_taken_key_and_can_replace_it(store: Store) -> None:
    mine = put(store, "k", "mine").entry
    record = EXPORTED | {"guid": "00000000-0000-7000-8000-000000000001", "content": "theirs"}
    lines = [orjson.dumps({"record": record}).decode()]

    with pytest.raises(Refused, match=f"its key belongs to record {mine.guid}"):
        call(store, "records.import", lines=lines)
    assert get(store, "k").value == "mine"
    call(store, "records.import", lines=lines, replace=True)
    assert get(store, "k").value == "theirs"


@pytest.mark.parametrize("block", ["memory_write", "memory_append", "memory_turn"])
def test_a_block_with_a_reserved_kind_cannot_be_deployed(block: str) -> None:
    (fault,) = faults_of(make_block(block, {"memory_id": "instances/a/b", "kind": "memory.fact"}))

    assert "wf_webhook_args.kind: " in fault and "is reserved" in fault


def test_an_internal_value_is_imported_as_it_was_exported(store: Store) -> None:
    value: Any = [2**64 - 1]
    for _ in range(40):
        value = [value, {"a\x00b": None}]
    entry = put(store, "k", value, in_context=False).entry
    data = store.records.by_guid(entry.guid).state.data
    record = orjson.dumps(EXPORTED | {"guid": entry.guid, "data": data, "in_context": 0}).decode()
    call(store, "items.delete", agent="a1", store="a1", key="k")

    call(store, "records.import", lines=[f'{{"record":{record}}}'], replace=True)

    assert get(store, "k", internal=True).value == value
