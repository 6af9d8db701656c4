"""The counters of records in exports, which the manifest of agent memory names."""

from pathlib import Path

import orjson

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.counters import CounterTable
from memrelay.memory.engine.store import Store
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import NOW, make_store, perform

OTHER = "instances/c0ffee00/memories"


def lines_of(store: Store, folder: Path) -> list[str]:
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    copy_database(Path(store.path), copy)
    return [to_json(line).decode() for line in export_lines(copy, store.memory_id, NOW + 1000)]


def test_counters_leave_with_an_export_and_a_second_import_changes_nothing(tmp_path: Path) -> None:
    store, other = make_store(tmp_path), make_store(tmp_path, OTHER)
    with store.transaction() as tx:
        guid = str(perform(tx, "records.create", content="tea").guid)
    with store.transaction() as tx:
        tx.table(CounterTable).count_use(guid, NOW)
        tx.table(CounterTable).count_outcome(guid, is_good=True, took_ms=7)
        counters = tx.table(CounterTable).find(guid)
    lines = lines_of(store, tmp_path)

    with other.transaction() as tx:
        first, again = (perform(tx, "records.import", lines=lines) for _ in range(2))
    assert (first.added, again.added, again.same) == (2, 0, 2)
    assert other.table(CounterTable).find(guid) == counters
    assert lines_of(other, tmp_path) == lines
    # A replaced record keeps its counters, whether their line comes in the same call or not.
    changed = orjson.loads(lines[0])
    changed["record"]["content"] = "coffee"
    with other.transaction() as tx:
        perform(tx, "records.import", lines=[orjson.dumps(changed).decode()], replace=True)
        assert tx.table(CounterTable).find(guid) == counters
    store.close()
    other.close()
