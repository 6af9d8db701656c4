"""Every operation that writes a text lets the policies of its store look at it.

The test varies the valid inputs of all operations, so a new operation or field is covered too.
"""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.models import list_rows
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import MemoryFault, PolicyStop, Refused
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.operations import Context, Operation, all_operations
from memrelay.memory.policy_rules import check_policy
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, make_guid, make_store, perform
from tests.memory.models.agent_memory import checkpoint_cases
from tests.memory.test_operation_bounds import FILLS, IDS, INPUTS, with_ids

MARK = "swordfish-4711"
Json = dict[str, Any]
POLICY = {
    "name": "no fish",
    "match": {"find": {"pattern": "swordfish-[0-9]+"}},
    "action": "redact",
    "internal": True,
}
# Values of a field. The first that is valid is written.
CANDIDATES: tuple[Any, ...] = (MARK, [MARK], {"a": MARK}, [{"a": MARK}], {"a": {"b": MARK}})
# Operations on texts that never reach a store, or that no policy may look at.
NOT_TEXTS = {
    "their store holds no memory": r"(endpoints|deliveries)\..*",
    "policies quote what they find, and proposals wait": r"(policies|reviews)\..*",
    "names of agents, users and chats": r"(grants|contexts|stores)\..*",
    "deletes by ids": r".*\.(delete|delete_many|delete_edge|delete_node|remove|clear|prune)"
    r"|knowledge_graph\.delete_.*|turns\.pop|checkpoints\.forget_runs|records\.erase|users\.forget",
    "only ids": r"records\.touch|checkpoints\.copy|procedures\.(use|retire)|(users|entries)\.merge"
    r"|facts\.recall|views\..*",
    "needs a worker, an embedder or a sealed value": r"records\.embed|items\.reseal",
    "bytes and lines, which tests of their own write": r"checkpoints\..*|records\.import",
}


# Inputs with more texts than those of INPUTS.
MORE: dict[str, Json] = {
    "knowledge_graph.create_entities": {
        "entities": [{"name": "b1", "entity_type": "t", "observations": ["o"]}]
    },
    "knowledge_graph.create_relations": {
        "relations": [{"from_entity": "a1", "to_entity": "a0", "relation_type": "knows"}]
    },
    "events.append": {
        "instance": "i",
        "events": [{"stream_id": "s", "event_type": "e", "payload": {"a": "b"}}],
    },
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Store], Json]]:
    root, ids = tmp_path_factory.mktemp("ways"), Json()
    stores = {name: make_store(root, id_) for name, id_ in IDS.items()}
    for name, store in stores.items():
        with store.transaction() as tx:
            ids |= FILLS[name](tx)
        set_policy(store)
    yield stores, ids | {"lines": [], "long_line": []}
    for store in stores.values():
        store.close()


def set_policy(store: Store) -> None:
    with store.transaction() as tx:
        tx.table(PolicyTable).put(check_policy(POLICY), NOW)


def vary(operation: Operation, base: Json) -> Iterator[Json]:
    """Yield inputs with the mark in one place each."""
    for one in fields(operation.input):
        yield from (base | {one.name: value} for value in CANDIDATES)
        yield from (base | {one.name: value} for value in _vary_inside(base.get(one.name)))


def _vary_inside(value: Any) -> Iterator[Any]:
    """Yield a JSON value with the mark in place of each text."""
    if isinstance(value, str):
        yield MARK
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (value | {key: one} for one in _vary_inside(inner))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in _vary_inside(inner))


def write(store: Store, operation: Operation, given: Json) -> str:
    """Call an operation. Return "written", "refused" by the policy, or "" for another error."""
    context = Context(NOW, "tester", 1 << 20, make_guid, pipeline="a3d8f1b2")
    try:
        wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
        with store.transaction() as tx:
            operation.run(tx, wanted, context)
    except PolicyStop:
        return "refused"
    except (MemoryFault, ValidationError):
        return ""
    return "written"


def read_file(store: Store) -> bytes:
    store.checkpoint()
    return Path(store.path).read_bytes()


def has_no_text(name: str) -> bool:
    return any(re.fullmatch(names, name) for names in NOT_TEXTS.values())


WRITERS = [
    operation
    for operation in all_operations().values()
    if operation.mutates and not has_no_text(operation.name)
]


@pytest.mark.parametrize("operation", WRITERS, ids=lambda operation: operation.name)
def test_a_text_that_a_policy_redacts_is_in_no_file(
    filled: tuple[dict[str, Store], Json], operation: Operation
) -> None:
    stores, ids = filled
    store = stores.get(operation.store, stores["memories"])
    base = with_ids(MORE.get(operation.name) or INPUTS[operation.name][0], ids)

    results = [write(store, operation, given) for given in vary(operation, base)]

    assert set(results) & {"refused", "written"}
    assert MARK.encode() not in read_file(store)


def message(text: str) -> bytes:
    """Return a message as the serializer of LangGraph writes it."""
    fields = {"content": [{"type": "text", "text": text}], "type": "human", "id": "1"}
    inner = msgspec.msgpack.encode(["langchain_core.messages.human", "HumanMessage", fields])
    return msgspec.msgpack.encode([msgspec.msgpack.Ext(5, inner), {"state": MARK[:5]}])


def test_the_texts_of_messages_in_checkpoints_are_redacted(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    set_policy(store)

    checkpoint_cases.put(store, "c1", [message(f"one {MARK}"), message("two")])
    checkpoint_cases.write(store, "c1", (0, "messages", message(f"three {MARK}")))

    stored = checkpoint_cases.values_of(checkpoint_cases.get(store))
    assert message("two") in stored
    assert [b"one [pattern:" in value for value in stored] == [False, True, False, False]
    assert MARK.encode() not in read_file(store)
    store.close()


def test_another_part_of_a_checkpoint_hides_no_message(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    set_policy(store)
    opaque = msgspec.msgpack.Ext(99, b"\xc1")
    deep: Any = message(f"two {MARK}")
    for _ in range(3000):
        deep = b"\x91" + deep

    checkpoint_cases.put(
        store, "c1", [msgspec.msgpack.encode([opaque, {"content": f"one {MARK}"}])]
    )
    with pytest.raises(Refused, match="nested too deep"):
        checkpoint_cases.put(store, "c2", [deep])

    (value,) = checkpoint_cases.values_of(checkpoint_cases.get(store))[1:]
    first, second = msgspec.msgpack.decode(value)
    assert first == opaque and second["content"].startswith("one [pattern:")
    assert MARK.encode() not in read_file(store)
    store.close()


@pytest.mark.parametrize("skip_conflicts", [False, True])
def test_imported_lines_are_redacted_and_a_repeat_has_no_effect(
    tmp_path: Path, skip_conflicts: bool
) -> None:
    source, store = make_store(tmp_path / "source"), make_store(tmp_path)
    with source.transaction() as tx:
        guid = perform(tx, "records.create", content=MARK, data={"a": MARK}).guid
        perform(tx, "records.update", guid=guid, content=f"now {MARK}")
        perform(tx, "memories.create", name="m", description=MARK)
    lines = [to_json(line).decode() for line in export_lines(Path(source.path), MEMORY_ID, NOW)]
    set_policy(store)

    call = {"lines": lines, "skip_conflicts": skip_conflicts}
    with store.transaction() as tx:
        first = perform(tx, "records.import", **call)
    with store.transaction() as tx:
        again = perform(tx, "records.import", **call)

    # A tolerant import does not count memories.
    count = len(lines) - skip_conflicts
    assert (first.added, again.added, again.same) == (count, 0, count)
    assert perform(store, "records.get", guid=guid).content.startswith("now [pattern:")
    assert MARK.encode() not in read_file(store)
    source.close(), store.close()


def test_an_imported_guid_is_looked_at_whatever_its_length(tmp_path: Path) -> None:
    source, store = make_store(tmp_path / "source"), make_store(tmp_path)
    with source.transaction() as tx:
        guid = perform(tx, "records.create", content="tea").guid
    (line,) = [to_json(line).decode() for line in export_lines(Path(source.path), MEMORY_ID, NOW)]
    set_policy(store)
    named = line.replace(guid, MARK.ljust(len(guid), "-"))

    with store.transaction() as tx:
        imported = perform(tx, "records.import", lines=[named], skip_conflicts=True)

    assert [one.at for one in imported.skipped] == [0] and imported.added == 0
    source.close(), store.close()


def test_a_line_that_a_policy_stops_is_skipped_with_its_name(tmp_path: Path) -> None:
    source, store = make_store(tmp_path / "source"), make_store(tmp_path)
    with source.transaction() as tx:
        for content in ("tea", f"a {MARK}", "coffee"):
            perform(tx, "records.create", content=content)
    lines = [to_json(line).decode() for line in export_lines(Path(source.path), MEMORY_ID, NOW)]
    with store.transaction() as tx:
        tx.table(PolicyTable).put(check_policy(POLICY | {"action": "refuse"}), NOW)

    with store.transaction() as tx:
        imported = perform(tx, "records.import", lines=lines, skip_conflicts=True)

    assert (imported.added, [one.at for one in imported.skipped]) == (2, [1])
    assert "no fish" in imported.skipped[0].reason
    source.close(), store.close()


def test_each_table_with_texts_is_known_to_the_tests(filled: tuple[dict[str, Store], Json]) -> None:
    """A new table with texts needs an operation whose texts policies see, or a reason."""
    tables = {rows.table for rows in list_rows() if rows.texts or rows.json}
    assert tables == {
        *("memory_versions", "kv", "events", "edges", "views"),
        # Names of agents, users and chats.
        *("grants", "contexts", "agent_settings"),
        # Their store holds no memory.
        *("deliveries", "delivery_tries"),
        # Names of sources and actors.
        *("policy_limits", "policy_verdicts"),
    }
