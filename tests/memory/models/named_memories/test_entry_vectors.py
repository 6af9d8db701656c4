"""Entries and their vectors, written without a pause and without the background task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID, perform
from tests.memory.models.named_memories.entry_cases import A, C, contents, make_memory

DETAILED = "Customer prefers email, especially for billing inquiries"


@pytest.fixture(scope="module")
def meaning() -> Iterator[SemanticResources]:
    """The built-in embedder."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("local")))
    yield SemanticResources(questions, Pool())
    questions.close()


@pytest.fixture
def tx(tmp_path: Path, meaning: SemanticResources) -> Iterator[Store]:
    store = Store(MEMORY_ID, store_path(tmp_path, MEMORY_ID), meaning)
    with store.transaction() as tx:
        yield tx
    store.close()


def write(tx: Store, memory: str, content: str, **keys: Any) -> Any:
    """Write an entry with its vector, as a worker does."""
    assert tx.meaning is not None
    tx.meaning.questions.prepare([content]).result()
    return perform(tx, "entries.create", memory_id=memory, content=content, **keys)


def write_all(tx: Store, *texts: str) -> tuple[list[str], list[str]]:
    """Write entries to a new memory. Return the actions, and the texts of the entries."""
    memory = make_memory(tx)
    return [write(tx, memory, text).action for text in texts], contents(tx, memory)


def search(tx: Store, query: str) -> Any:
    return perform(tx, "knowledge.search", query=query)


def test_a_merged_entry_is_compared_by_meaning_at_once(tx: Store) -> None:
    actions, _ = write_all(tx, A, DETAILED, "The customer likes email more than phone", C)

    assert actions == ["created", "updated", "skipped", "created"]
    assert not search(tx, "how to reach the client").degraded


def test_twelve_successive_numbers_leave_one_entry(tx: Store) -> None:
    actions, entries = write_all(tx, *(f"The build number is {number}" for number in range(12)))

    assert actions == ["created"] + ["updated"] * 11
    assert len(entries) == 1


def test_an_edited_entry_is_found_by_its_new_meaning_at_once(tx: Store) -> None:
    entry = write(tx, make_memory(tx), A)
    assert tx.meaning is not None
    tx.meaning.questions.prepare(["The dog is called Rex"]).result()
    perform(tx, "entries.update", id=entry.id, content="The dog is called Rex")

    found = search(tx, "name of my pet")

    assert not found.degraded
    assert [one.content for one in found.results] == ["The dog is called Rex"]


def test_a_search_is_degraded_while_a_vector_is_missing(tx: Store) -> None:
    one, other = make_memory(tx), make_memory(tx, "Other")
    write(tx, one, A)
    entry = write(tx, other, C)
    assert not search(tx, "billing").degraded
    perform(tx, "entries.update", id=entry.id, content="The invoice is due in May")

    found = search(tx, "billing")

    assert found.degraded and "no vector yet" in found.reason
    assert not perform(tx, "knowledge.search", query="billing", memory_ids=[one]).degraded


@pytest.mark.parametrize(
    "states",
    [
        ("flag enabled", "flag disabled"),
        ("The user lives in Berlin", "The user lives in Munich"),
        ("Berlin", "Munich"),
        ("The order status is pending", "The order status is shipped"),
        ("The team has 4 members", "The team has 5 members"),
        ("Le serveur est activé", "Le serveur est désactivé"),
    ],
)
def test_a_returning_state_becomes_the_last_line(tx: Store, states: tuple[str, str]) -> None:
    first, second = states

    actions, entries = write_all(tx, first, second, first, first)

    assert actions == ["created", "updated", "updated", "skipped"]
    assert entries == [f"{second}\n{first}"]


def test_a_state_returns_after_many_others(tx: Store) -> None:
    numbers = [f"The build number is {number}" for number in range(18)]

    actions, entries = write_all(tx, *numbers, numbers[0])

    assert actions[-1] == "updated"
    assert entries == ["\n".join([*numbers[1:], numbers[0]])]


def test_a_fact_that_no_line_states_is_skipped_by_a_low_threshold(tx: Store) -> None:
    memory = make_memory(tx)
    for number in (4, 5):
        write(tx, memory, f"The team has {number} members")

    again = write(tx, memory, "The team has 6 members", duplicate_threshold=0.5)

    assert again.action == "skipped" and again.content.count("\n") == 1


def test_a_line_that_only_gets_more_detail_is_not_outdated(tx: Store) -> None:
    actions, entries = write_all(tx, A, DETAILED, A)

    assert actions == ["created", "updated", "skipped"]
    assert entries == [f"{A}\n{DETAILED}"]


@pytest.mark.parametrize(
    ("mode", "action", "entry"),
    [
        ("skip", "skipped", "flag enabled\nflag disabled"),
        ("merge", "updated", "flag disabled\nflag enabled"),
        ("supersede", "updated", "flag disabled\nflag enabled"),
    ],
)
def test_the_mode_decides_what_a_returning_state_does(
    tx: Store, mode: str, action: str, entry: str
) -> None:
    memory = make_memory(tx)
    write(tx, memory, "flag enabled")
    write(tx, memory, "flag disabled")

    assert write(tx, memory, "flag enabled", mode=mode).action == action
    assert contents(tx, memory) == [entry]
