"""No operation but `reviews.*` reads a write that waits for review. All operations are called, so a
new one is covered too.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.admission import Stops, run_stoppable, settle
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import MemoryFault, PolicyStop, StoppedTooLate
from memrelay.memory.operations import Context, Operation, all_operations, input_schema, json_type
from memrelay.memory.stopped_writes import ReviewPending
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import NOW, make_guid, make_store, perform
from tests.memory.test_operation_bounds import INPUTS, RESULT_BYTES, with_ids

CANARY, MARK = "plugh", "xyzzy"
TEXT = f"Ada drinks green tea {MARK} {CANARY}"
WORDS = "Ada drinks green tea"
POLICY = {"name": "strangers wait", "match": {"find": {"pattern": MARK}}, "action": "review"}
STORES = {
    name: f"instances/a3d8f1b2/{name}"
    for name in ("memories", "recipes", "stores", "langgraph", "endpoints")
}
ITEM = {"agent": "a1", "store": "a1", "key": "k1"}
FILE = {"command": "create", "path": "/memories/k2", "file_text": TEXT}
# The store, the operation and the input of each write that the policy holds.
WRITES = [
    ("memories", "records.create", {"content": TEXT, "key": "k", "thread": "t", "kind": "note"}),
    ("memories", "records.append", {"content": TEXT, "guid": "$guid"}),
    ("memories", "records.update", {"content": TEXT, "guid": "$guid"}),
    ("memories", "entries.create", {"memory_id": "$memory", "content": TEXT}),
    ("memories", "facts.set", {"key": "key 1", "value": TEXT}),
    (
        "memories",
        "records.put",
        {"items": [{"scope": "s", "key": "k1", "data": {"value": {"a": TEXT}}}]},
    ),
    ("recipes", "documents.put", {"collection": "c", "uri": "u1", "text": TEXT}),
    ("stores", "items.put", ITEM | {"value": TEXT}),
    ("stores", "memory_tool.write", {"agent": "a1", "arguments": FILE, "dialect": "anthropic"}),
]
VALUES: dict[str, tuple[Any, ...]] = {"string": (WORDS, "pending"), "boolean": (True,)}
DURATION = re.compile(rb'_ms":[0-9.]+')
# The store, the operation and the input of a read.
Read = tuple[str, str, str]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Store]]:
    root = tmp_path_factory.mktemp("stores")
    stores = {name: make_store(root, memory_id) for name, memory_id in STORES.items()}
    yield stores
    for store in stores.values():
        store.close()


def fill(stores: dict[str, Store]) -> dict[str, str]:
    """Write what the inputs of operations name, and return the ids."""
    words = f"{WORDS} at noon"
    with stores["memories"].transaction() as tx:
        note = perform(tx, "records.create", content=words, kind="note", thread="t")
        memory = perform(tx, "memories.create", name="m")
        entry = perform(tx, "entries.create", memory_id=memory.id, content=words)
        fact = perform(tx, "facts.set", key="key 1", value=words)
        user = perform(tx, "users.identify", channel="telegram", channel_id="c0")
        episode = perform(tx, "episodes.begin", agent_id="a1", user_id="u")
        perform(tx, "checkpoints.put", id="c1", thread="t")
    with stores["recipes"].transaction() as tx:
        perform(tx, "documents.put", collection="c", uri="u1", text=words)
    with stores["stores"].transaction() as tx:
        perform(tx, "items.put", **ITEM, value=words)
    ids = {"guid": note.guid, "memory": memory.id, "entry": entry.id, "fact": fact.fact.id}
    return ids | {"user": user.user.id, "episode": episode.id}


def hold(store: Store, name: str, given: dict[str, Any]) -> str:
    """Make a write that a policy stops, as the owner of a store does. Return the reserved guid."""
    operation = all_operations()[name]
    context = Context(NOW, "Mallory", RESULT_BYTES, make_guid, pipeline="a3d8f1b2")
    wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
    stops: Stops = {}
    with suppress(StoppedTooLate), store.trial() as tx:
        stop = run_stoppable(stops, name, tx, lambda: operation.run(tx, wanted, context))
        assert isinstance(stop, PolicyStop), (name, stop)
        stops[name] = stop
    with store.transaction() as tx:
        answer = settle(stops[name], operation, wanted, tx, context)
    assert isinstance(answer, ReviewPending)
    return answer.guid


def read_all(stores: dict[str, Store], ids: dict[str, str]) -> dict[Read, bytes]:
    """Return the outputs of all operations that read, each with several inputs, by store."""
    outputs: dict[Read, bytes] = {}
    for name, operation in all_operations().items():
        if operation.mutates or operation.noun in ("reviews", "rehearsals", "policies"):
            continue
        base = with_ids(INPUTS[name][0], ids)
        for store_name in [operation.store] if operation.store else STORES:
            for given in [base, *vary(operation, base, ids)]:
                text = orjson.dumps(given).decode()
                outputs[store_name, name, text] = run(stores[store_name], operation, given)
    return outputs


def vary(
    operation: Operation, base: dict[str, Any], ids: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield an input with other values in each field."""
    for name, field in input_schema(operation)["properties"].items():
        for value in VALUES.get(json_type(field), ()):
            yield base | {name: ids.get(value, value) if isinstance(value, str) else value}


def run(store: Store, operation: Operation, given: dict[str, Any]) -> bytes:
    """Return the output as JSON, or the error."""
    context = Context(NOW + 1, "Mallory", RESULT_BYTES, make_guid, pipeline="a3d8f1b2")
    with store.trial() as tx:
        try:
            wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
            return DURATION.sub(b'_ms":0', orjson.dumps(operation.run(tx, wanted, context)))
        except (MemoryFault, ValidationError) as error:
            return str(error).encode()


def test_no_read_shows_counts_or_detects_what_waits(
    stores: dict[str, Store], tmp_path: Path
) -> None:
    ids = fill(stores)
    ids["pending"] = make_guid()
    for store in stores.values():
        with store.transaction() as tx:
            perform(tx, "policies.set", policy=POLICY)
            store.refresh_features()
    before = read_all(stores, ids)
    held = [hold(stores[name], op, with_ids(given, ids)) for name, op, given in WRITES]

    after = read_all(stores, ids)

    assert len(held) == len(WRITES) and sum(output[:1] in b"{[" for output in after.values()) > 200
    assert [key for key, output in after.items() if CANARY.encode() in output] == []
    assert {key: output for key, output in after.items() if output != before[key]} == {}
    for store in stores.values():
        copy = tmp_path / "copy"
        copy_database(Path(store.path), copy)
        lines = b"".join(to_json(line) for line in export_lines(copy, store.memory_id, NOW))
        assert CANARY.encode() not in lines and not any(guid.encode() in lines for guid in held)
        copy.unlink()
