"""memory_entry_write and knowledge_search, and the sample that uses them."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from memrelay.pipelines.check import check
from tests.blocks.calls import MEMORY_ID, answer, args_of, make_call, make_message
from tests.memory.builders import make_store, perform

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "named_memory.json"
FACT = "Customer prefers email over phone calls"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def ask(store: Store, block: str, text: str, **args: Any) -> Any:
    with store.transaction() as tx:
        said = answer(block, make_call(make_message(text), tx), **{"memory_id": MEMORY_ID} | args)
    assert said is not None
    part = said["args"][0]
    return orjson.loads(part["text"]) if part["type"] == "application/json" else part["text"]


def test_a_memory_is_created_once_by_its_name_and_stores_a_fact_once(store: Store) -> None:
    first = ask(store, "memory_entry_write", FACT, memory="notes", tags="a,b")
    second = ask(store, "memory_entry_write", FACT.upper(), memory="notes")

    assert (first["action"], first["source"], first["tags"], first["content"]) == (
        "created",
        "agent",
        ["a", "b"],
        FACT,
    )
    assert (second["action"], second["id"], second["confirmations"]) == ("skipped", first["id"], 1)
    with store.transaction() as tx:
        (memory,) = perform(tx, "memories.list").items
        assert (memory.name, memory.id) == ("notes", first["memory_id"])
    assert ask(store, "memory_entry_write", FACT, memory=memory.id)["action"] == "skipped"


def test_an_invalid_entry_returns_an_error(store: Store) -> None:
    assert "memory is missing" in ask(store, "memory_entry_write", FACT)["error"]
    assert (
        "memory_id is missing"
        in ask(store, "memory_entry_write", FACT, memory_id="", memory="notes")["error"]
    )
    assert "no memory has the id" in ask(store, "memory_entry_write", FACT, memory="mem_x")["error"]
    assert ask(store, "memory_entry_write", " ", memory="notes") == {"error": "no content"}
    assert "at most" in ask(store, "memory_entry_write", "x" * 40_000, memory="notes")["error"]


def test_a_query_that_is_too_long_is_refused_and_not_truncated(store: Store) -> None:
    ask(store, "memory_entry_write", FACT, memory="notes")

    assert ask(store, "knowledge_search", "email " + "x" * 65_530)["results"]
    assert (
        "65537 characters, more than 65536"
        in ask(store, "knowledge_search", "email " + "x" * 65_531)["error"]
    )


def test_memories_that_are_not_a_list_are_an_error_that_names_them() -> None:
    with pytest.raises(ValidationError, match="memories are an array of ids or names"):
        args_of("knowledge_search", memories=5)


@pytest.mark.parametrize(
    ("memory_id", "warnings"),
    [
        ("instances/3f9c2a71/memories", 0),
        ("instances/3f9c2a71/notes", 1),
        ("shared/memories", 1),
        ("instances/3f9c2a71/memories/more", 1),
    ],
)
@pytest.mark.parametrize(
    ("block", "named"), [("memory_entry_write", "memory"), ("knowledge_search", "memories")]
)
def test_another_store_than_the_pipelines_is_a_warning(
    block: str, named: str, memory_id: str, warnings: int
) -> None:
    assert len(args_of(block, memory_id=memory_id, **{named: "notes"}).warnings()) == warnings


def test_entries_are_found_only_in_the_given_memories(store: Store) -> None:
    ask(store, "memory_entry_write", FACT, memory="notes")
    ask(store, "memory_entry_write", "Customer prefers fax", memory="other")

    (found,) = ask(store, "knowledge_search", "email", memories="notes")["results"]
    told = ask(
        store,
        "knowledge_search",
        "customer",
        memories=["other"],
        output_template="{{scope}}: {{content}}\n",
    )

    assert (found["content"], found["memory_name"]) == (FACT, "notes")
    assert told == "other: Customer prefers fax\n"
    assert len(ask(store, "knowledge_search", "customer")["results"]) == 2
    assert ask(store, "knowledge_search", "customer", memories="nobody")["results"] == []
    assert ask(store, "knowledge_search", "customer", tags="x*")["results"] == []
    assert ask(store, "knowledge_search", " ")["results"] == []


def test_the_sample_has_no_faults_no_warnings_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()
