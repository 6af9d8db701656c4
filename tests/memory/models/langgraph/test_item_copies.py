"""Items of LangGraph stores in exports, imports and erasures."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import NOW, fresh_store, make_store, perform


def call(store: Store, name: str, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def put(store: Store, key: str, text: str, **more: Any) -> str:
    item = {"scope": "n", "key": key, "data": {"value": {"t": text}}, "content": text} | more
    return str(call(store, "records.put", items=[item]).guids[0])


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW + 1)]


def test_an_import_has_the_same_items_and_history(tmp_path: Path) -> None:
    other = make_store(tmp_path, "instances/c0ffee00/langgraph")
    with fresh_store() as store:
        put(store, "k", "tea")
        put(store, "k", "coffee", ttl=5)
        lines = lines_of(store, tmp_path)

    first, again = (call(other, "records.import", lines=lines) for _ in range(2))

    assert (first.added, again.added) == (2, 0)
    assert lines_of(other, tmp_path) == lines
    assert len(call(other, "records.find", scope="n", keys=["k"]).items) == 1
    other.close()


def test_an_import_refuses_a_taken_key_unless_it_replaces(tmp_path: Path) -> None:
    other = make_store(tmp_path, "instances/c0ffee00/langgraph")
    with fresh_store() as store:
        put(store, "k", "tea")
        lines = lines_of(store, tmp_path)
    put(other, "k", "coffee")

    with pytest.raises(Refused, match="its key belongs to record"):
        call(other, "records.import", lines=lines)
    call(other, "records.import", lines=lines, replace=True)

    (item,) = call(other, "records.list", kind="memory.item").items
    assert item.data == {"value": {"t": "tea"}}
    other.close()


def test_an_erasure_removes_an_item_with_its_history() -> None:
    with fresh_store() as store:
        put(store, "k", "tea")
        put(store, "k", "secret recipe")
        put(store, "other", "coffee")

        assert call(store, "records.erase", text="secret").records == 1

        assert call(store, "records.find", scope="n", keys=["k"]).items == ()
        assert call(store, "records.list", kind="memory.item", deleted=True).total == 0
        assert call(store, "records.list", kind="memory.item").total == 1
