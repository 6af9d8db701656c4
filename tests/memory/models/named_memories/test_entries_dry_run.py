"""A dry run of entries.create answers as the write does, and leaves the store as it is."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.records.ids import guid_of
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID, NOW, perform
from tests.memory.models.named_memories.entry_cases import A, B, C

# Written one after the other to one memory: (text, further input).
WRITES: list[tuple[str, dict[str, Any]]] = [
    (A, {}),
    (A, {}),
    (A.upper(), {}),
    (f"  {A}. ", {"tags": ["mail"], "metadata": {"page": 1}}),
    (B, {"tags": ["money"], "metadata": {"page": 3}}),
    (C, {"source": "agent"}),
    ("The invoice is due in June", {"update_threshold": 0.5}),
    ("The invoice is due in May", {}),
    ("The flag is enabled", {}),
    ("The flag is disabled", {"update_threshold": 0.5, "metadata": {"page": 9}}),
    ("The flag is enabled", {"mode": "skip"}),
    ("The flag is enabled", {}),
    ("The flag is lowered", {"update_threshold": 0.0}),
    ("The flag is off", {"mode": "supersede", "update_threshold": 0.3}),
    (A, {"mode": "create"}),
    (A, {"duplicate_threshold": 1.5, "update_threshold": 1.5}),
    ("x" * 20_000, {}),
    ("y " * 10_000, {"update_threshold": 0.0, "mode": "merge"}),
]


@pytest.fixture(scope="module")
def meaning() -> Iterator[SemanticResources]:
    """The built-in embedder."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("local")))
    yield SemanticResources(questions, Pool())
    questions.close()


@pytest.fixture(params=["words", "vectors"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, meaning: SemanticResources
) -> Iterator[Store]:
    store = Store(
        MEMORY_ID,
        store_path(tmp_path, MEMORY_ID),
        meaning if request.param == "vectors" else None,
    )
    yield store
    store.close()


def try_out(store: Store, content: str, **given: Any) -> dict[str, Any]:
    """Call a dry run as the owner of the store does."""
    prepare(store, content)
    with store.trial() as tx:
        return asdict(perform(tx, "entries.create", content=content, dry_run=True, **given))


def write(store: Store, content: str, **given: Any) -> dict[str, Any]:
    prepare(store, content)
    with store.transaction() as tx:
        return asdict(perform(tx, "entries.create", content=content, **given))


def prepare(store: Store, content: str) -> None:
    if store.meaning is not None:
        store.meaning.questions.prepare([content]).result()


def make_memory(store: Store) -> str:
    with store.transaction() as tx:
        return str(perform(tx, "memories.create", name="Customer").id)


def contents(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, with the number of commits."""
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    tables = [name for (name,) in store._connection.execute(names)]
    return {
        name: store._connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables
    }


def test_a_dry_run_answers_as_the_write_and_changes_nothing(store: Store) -> None:
    memory, actions = make_memory(store), set()
    for text, further in WRITES:
        before = contents(store)
        planned = try_out(store, text, memory_id=memory, **further)
        assert contents(store) == before, text
        written = write(store, text, memory_id=memory, **further)

        actions.add(written["action"])
        if written["action"] == "created":
            written |= {"id": "", "version": ""}
        assert planned == written
    assert actions == {"created", "updated", "skipped"}


def test_a_dry_run_sees_an_edit_without_indexing_it(store: Store) -> None:
    memory = make_memory(store)
    entry = write(store, A, memory_id=memory)
    with store.transaction() as tx:
        perform(tx, "records.update", guid=guid_of("me", MEMORY_ID, entry["id"]), content=B)
    before = contents(store)

    answer = try_out(store, B.lower(), memory_id=memory)

    assert (answer["action"], answer["id"], answer["score"], answer["why"]) == (
        "skipped",
        entry["id"],
        1.0,
        "the same text except for case, spaces or punctuation",
    )
    assert contents(store) == before


def test_a_dry_run_creates_no_memory(store: Store) -> None:
    answer = try_out(store, A, memory="unknown", tags=["a"], metadata={"page": 3})

    assert (answer["action"], answer["score"]) == ("created", 0.0)
    assert (answer["id"], answer["memory_id"], answer["version"]) == ("", "", "")
    assert (answer["content"], answer["tags"], answer["metadata"]) == (A, ("a",), {"page": 3})
    with store.trial() as tx:
        assert not tx.table(MemoryTable).any()


def test_a_dry_run_refuses_what_the_write_refuses(store: Store) -> None:
    with pytest.raises(RecordNotFound):
        try_out(store, A, memory_id="mem_a3d8f1b2_0000")
    with pytest.raises(Refused, match="name one memory"):
        try_out(store, A)
    with store.trial() as tx, pytest.raises(ValueError, match="dry_run"):
        perform(tx, "entries.create", now_ms=NOW, content=A, memory="m", dry_run="yes")
