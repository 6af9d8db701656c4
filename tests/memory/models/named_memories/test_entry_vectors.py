"""Entries and their vectors, written without a pause and without the background task."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.embedding.backfill import start_new_set
from memrelay.memory.search.embedding.built_in import BGE, MINILM
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder, load
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID, perform
from tests.memory.models.named_memories.entry_cases import A, C, contents, make_memory
from tests.memory.models.named_memories.entry_cases import write_embedded as write

DETAILED = "Customer prefers email, especially for billing inquiries"


@pytest.fixture
def tx(embedded_tx: Store) -> Store:
    return embedded_tx


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


@pytest.mark.parametrize(("mode", "left"), [("current", 1), (None, 12)])
def test_twelve_successive_numbers_leave_one_entry_only_if_they_are_current(
    tx: Store, mode: str | None, left: int
) -> None:
    memory = make_memory(tx)
    for number in range(12):
        write(tx, memory, f"The build number is {number}", mode=mode)

    entries = contents(tx, memory)

    assert len(entries) == left and entries[-1] == "The build number is 11"


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
        ("Le serveur est activé", "Le serveur est désactivé"),
    ],
)
def test_a_returning_state_becomes_the_last_line(tx: Store, states: tuple[str, str]) -> None:
    first, second = states

    actions, entries = write_all(tx, first, second, first, first)

    assert actions == ["created", "updated", "updated", "skipped"]
    assert entries == [f"{second}\n{first}"]


def test_a_state_returns_after_many_others(tx: Store) -> None:
    numbers, memory = [f"The build number is {number}" for number in range(18)], make_memory(tx)
    for number in numbers:
        write(tx, memory, number, update_threshold=0.5)

    again = write(tx, memory, numbers[0])

    assert again.action == "updated"
    assert contents(tx, memory) == ["\n".join([*numbers[1:], numbers[0]])]


def test_a_fact_that_no_line_states_is_skipped_by_a_low_threshold(tx: Store) -> None:
    memory = make_memory(tx)
    for number in (4, 5):
        write(tx, memory, f"The team has {number} members", update_threshold=0.5)

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
        ("supersede", "updated", "flag enabled"),
        ("current", "updated", "flag enabled"),
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


def test_a_write_during_a_reindex_is_compared_by_the_old_model(tmp_path: Path) -> None:
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("auto")))
    meaning = SemanticResources(questions, Pool())
    store = Store(MEMORY_ID, store_path(tmp_path, MEMORY_ID), meaning)
    old, paraphrase = str(MINILM.fingerprint), "The customer likes email more than phone"
    with store.transaction() as tx:
        memory = make_memory(tx)
        questions.prepare([A, paraphrase, C], old).result()
        tx.vectors.begin(old, MINILM.dimension)
        first = perform(tx, "entries.create", memory_id=memory, content=A)
    start_new_set(store, load(EmbeddingOptions("bge")))

    with store.transaction() as tx:
        again = perform(tx, "entries.create", memory_id=memory, content=paraphrase)
        other = perform(tx, "entries.create", memory_id=memory, content=C)

    assert (again.action, again.id, other.action) == ("skipped", first.id, "created")
    serving, following = store.vectors.sets()
    assert (serving.fingerprint, following.fingerprint) == (old, str(BGE.fingerprint))
    assert len(list(store.vectors.read(serving))) == 2
    assert store.vectors.backlog(following) == 2
    questions.close()
    store.close()
