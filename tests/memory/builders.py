"""Stores and records for tests: real files, good defaults, and checks of the files from outside."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import orjson

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.operations import Context, all_operations
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.records.reading import ReadInput, read
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import AppendInput, WriteInput, append, write
from memrelay.memory.search.search import SearchInput, search

MEMORY_ID = "instances/a3d8f1b2/memories"
RECIPES_ID = "instances/a3d8f1b2/recipes"
NOW = 1_700_000_000_000  # Unix ms
PLENTY = 100 << 20  # bytes


def find_fast_root() -> str | None:
    """Return a folder in memory with room for the tests, or None for the default folder on disk."""
    folder = "/dev/shm"
    has_room = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 1 << 30
    return folder if has_room else None


FAST_ROOT = find_fast_root()

_numbers = count(1)


def make_store(root: Path, memory_id: str = MEMORY_ID) -> Store:
    return Store(memory_id, store_path(root, memory_id))


@contextmanager
def fresh_store() -> Iterator[Store]:
    """Open a store in a temporary folder. Each example of a property gets its own."""
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = make_store(Path(root))
        yield store
        store.close()


def make_guid() -> str:
    return derive_guid("b111de25", f"{NOW}-{next(_numbers)}", "builder", 1)


def make_record(content: str = "tea", **changes: Any) -> WriteInput:
    keys = {"scope": MEMORY_ID, "kind": "observation", "source": "keeper"}
    return WriteInput(
        **{"guid": make_guid(), "content": content, "tags": (), "now_ms": NOW} | keys | changes
    )


def write_all(store: Store, *contents: str, **changes: Any) -> list[str]:
    """Write the contents in one transaction. Return their guids."""
    with store.transaction() as tx:
        return [write(tx, make_record(content, **changes)) for content in contents]


def append_to(
    tx: Store, content: str, *, guid: str = "", filters: dict[str, str] | None = None, **new: Any
) -> tuple[str, bool]:
    return append(tx, AppendInput(make_record(content, **new), guid, filters or {}))


def read_all(tx: Store, **wanted: Any) -> list[Record]:
    return read(tx, ReadInput(PLENTY, **wanted))


def find(tx: Store, query: str, **wanted: Any) -> list[Record]:
    return search(tx, SearchInput(query, PLENTY, **wanted))


def perform(
    tx: Store,
    name: str,
    /,
    *,
    now_ms: int = NOW,
    actor: str = "tester",
    result_bytes: int = PLENTY,
    **given: Any,
) -> Any:
    """Call an operation with validated JSON input, as every face does."""
    operation = all_operations()[name]
    wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
    return operation.run(tx, wanted, Context(now_ms, actor, result_bytes, make_guid))


def perform_at(store: Store, now_ms: int, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, now_ms=now_ms, **given)


def contents(records: list[Record]) -> list[str]:
    return [record.content for record in records]


def assert_sound(path: str | Path) -> None:
    """Check the file with SQLite's integrity check and compare both FTS5 indexes with the table.
    The store must have no open transaction."""
    connection = apsw.Connection(str(path))
    try:
        assert connection.pragma("integrity_check") == "ok"
        connection.execute(
            "INSERT INTO records_fts(records_fts, rank) VALUES ('integrity-check', 1)"
        )
        connection.execute("INSERT INTO parts_fts(parts_fts, rank) VALUES ('integrity-check', 1)")
    finally:
        connection.close()
