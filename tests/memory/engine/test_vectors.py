"""The vectors of a store: each belongs to the current text of its record."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import EmbeddingFault, TextRejected
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.search.embedding.backfill import (
    VectorState,
    compute_vectors,
    inspect_vectors,
    next_task,
    start_new_set,
    store_vectors,
)
from memrelay.memory.search.embedding.embedder import Calibration, Embedder, Fingerprint
from memrelay.memory.search.embedding.loading import wrong_model_error
from tests.memory.builders import NOW, append_to, fresh_store, make_store, perform, write_all


class LengthEmbedder:
    """An embedder of two dimensions that gives each text length its own vector. It rejects texts
    that contain `bad`."""

    calibration = Calibration()
    waits = False

    def __init__(self, name: str = "lengths") -> None:
        self.fingerprint = Fingerprint(name, 2, "0" * 64)
        self.batches: list[list[str]] = []

    def embed(self, texts: list[str]) -> np.ndarray:
        self.batches.append(list(texts))
        if any("bad" in text for text in texts):
            raise TextRejected("not this one")
        angles = np.array([len(text) for text in texts]) / 100
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


LENGTHS: Embedder = LengthEmbedder()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def embed_all(store: Store, embedder: Embedder = LENGTHS, most: int = 3) -> int:
    """Make all outstanding vectors. Return the number of steps."""
    steps = 0
    while (task := next_task(store, embedder, True, most)) is not None:
        steps += 1
        if task.one is not None:
            store_vectors(store, task.one, compute_vectors(embedder, task.texts))
    return steps


def stored_lengths(store: Store) -> dict[int, int]:
    """Return row -> text length of each vector in the serving set."""
    (serving,) = [one for one in store.vectors.sets() if one.serves]
    pairs = {
        row: np.frombuffer(vector, "<f2").astype(float)
        for row, vector in store.vectors.read(serving)
    }
    return {
        row: round(float(np.arctan2(pair[1], pair[0])) * 100)
        for row, pair in pairs.items()
        if len(pair)
    }


def expected_lengths(store: Store) -> dict[int, int]:
    """Return the lengths of all texts. An empty text gets no vector."""
    return {
        row: len(content)
        for row, content in store._connection.execute("SELECT row, content FROM records")
        if content
    }


def test_a_store_has_no_vectors_until_they_are_enabled(store: Store) -> None:
    write_all(store, "tea", "coffee")

    unwanted = next_task(store, LENGTHS, False, 3)

    assert unwanted is None
    assert store.vectors.sets() == []
    assert not inspect_vectors(store, False).todo
    assert inspect_vectors(store, True).todo


def test_every_record_with_text_gets_its_vector(store: Store) -> None:
    write_all(store, *["x" * length for length in range(20)])

    steps = embed_all(store)

    assert steps == 7
    assert stored_lengths(store) == expected_lengths(store)
    assert inspect_vectors(store, True) == (False, 0, str(LENGTHS.fingerprint), "")


def test_a_turn_is_embedded_with_its_speaker(store: Store) -> None:
    write_all(store, "tea, please", source="Ada", thread="breakfast")
    embedder = LengthEmbedder()

    embed_all(store, embedder)

    assert embedder.batches == [["Ada said: tea, please"]]


def test_an_edit_removes_the_vector_until_a_new_one_is_made(store: Store) -> None:
    first, _ = write_all(store, "tea", "coffee")
    embed_all(store)

    with store.transaction() as tx:
        append_to(tx, "with milk", guid=first)

    assert stored_lengths(store) == {2: 6}
    assert inspect_vectors(store, True).backlog == 1
    embed_all(store)
    assert stored_lengths(store) == {1: 13, 2: 6}


def test_an_edit_of_other_fields_keeps_the_vector(store: Store) -> None:
    guid, turn = (
        write_all(store, "tea", source="Ada", thread=thread)[0] for thread in (None, "talk")
    )
    embed_all(store)

    for name, value in {
        "tags": ["hot"],
        "kind": "note",
        "data": {"a": 1},
        "expires_at": format_time(NOW + 60_000),
    }.items():
        perform(store, "records.update", guid=guid, **{name: value})

    assert stored_lengths(store) == {1: 3, 2: 13} and inspect_vectors(store, True).backlog == 0
    perform(store, "records.update", guid=turn, source="Bo")
    embed_all(store)
    assert stored_lengths(store) == {1: 3, 2: 12}


def test_a_rollback_restores_the_vector(store: Store) -> None:
    (guid,) = write_all(store, "tea")
    embed_all(store)

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        append_to(tx, "with milk", guid=guid)
        raise ZeroDivisionError

    assert stored_lengths(store) == {1: 3}
    assert inspect_vectors(store, True).backlog == 0


def test_a_vector_is_deleted_with_its_record(store: Store) -> None:
    first, *_ = write_all(store, "tea", "coffee", "water")
    embed_all(store)

    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
    assert set(stored_lengths(store)) == {2, 3}

    with store.transaction() as tx:
        delete(tx, DeleteInput(kind="observation"))
    assert stored_lengths(store) == {}
    assert inspect_vectors(store, True).backlog == 0


def test_a_reused_row_gets_the_vector_of_its_new_record(store: Store, tmp_path: Path) -> None:
    *_, last = write_all(store, "tea", "coffee")
    embed_all(store)
    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=last))
    store.close()

    again = make_store(tmp_path)
    write_all(again, "water")
    embed_all(again)

    assert stored_lengths(again) == expected_lengths(again) == {1: 3, 2: 5}
    again.close()


def test_a_row_reused_during_embedding_gets_the_vector_of_its_new_record(store: Store) -> None:
    write_all(store, "tea")
    *_, between, last = write_all(store, "milk", "coffee", "water")
    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=between))
    task = next_task(store, LENGTHS, True, 10)
    assert task is not None and task.one is not None

    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=last))
    with (
        suppress(ZeroDivisionError),
        store.transaction(),
    ):  # a rollback makes the row number available again
        raise ZeroDivisionError
    write_all(store, "lemonade")
    store_vectors(store, task.one, compute_vectors(LENGTHS, task.texts))
    embed_all(store)

    assert stored_lengths(store) == expected_lengths(store) == {1: 3, 2: 4, 3: 8}


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_record_changed_during_embedding_does_not_get_the_old_vector(
    store: Store, change: str
) -> None:
    guid, _ = write_all(store, "tea", "coffee")
    task = next_task(store, LENGTHS, True, 10)
    assert task is not None and task.one is not None
    made = compute_vectors(LENGTHS, task.texts)

    with store.transaction() as tx:
        append_to(tx, "with milk", guid=guid) if change == "edited" else delete(
            tx, DeleteInput(guid=guid)
        )
    store_vectors(store, task.one, made)

    assert stored_lengths(store) == {2: 6}
    embed_all(store)
    assert stored_lengths(store) == expected_lengths(store)


def test_a_rejected_text_does_not_block_others(store: Store) -> None:
    write_all(store, "tea", "bad", "coffee", "bad too", "water")

    embed_all(store, most=10)

    assert stored_lengths(store) == {1: 3, 3: 6, 5: 5}
    assert inspect_vectors(store, True).backlog == 0


def test_another_embedder_changes_nothing_and_the_error_names_reindex(store: Store) -> None:
    write_all(store, "tea")
    embed_all(store)
    other = LengthEmbedder("others")
    write_all(store, "coffee")

    task = next_task(store, other, True, 10)

    assert task is None
    assert stored_lengths(store) == {1: 3}
    fault = wrong_model_error(inspect_vectors(store, True).fingerprint, other)
    assert isinstance(fault, EmbeddingFault)
    assert "memrelay reindex" in str(fault)


def test_a_reindex_builds_a_second_set_while_the_first_serves(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    other = LengthEmbedder("others")

    start_new_set(store, other)
    for _ in range(2):
        task = next_task(store, other, True, 3)
        assert task is not None and task.one is not None
        store_vectors(store, task.one, compute_vectors(other, task.texts))
    meanwhile = store.vectors.serving()
    embed_all(store, other)

    assert meanwhile is not None and meanwhile.fingerprint == str(LENGTHS.fingerprint)
    assert [one.fingerprint for one in store.vectors.sets()] == [str(other.fingerprint)]
    assert stored_lengths(store) == expected_lengths(store)
    assert not store.vectors.to_clear()


def test_a_reindex_can_be_restarted_with_another_embedder(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    for other in (LengthEmbedder("second"), LengthEmbedder("third")):
        start_new_set(store, other)
        task = next_task(store, other, True, 3)
        assert task is not None and task.one is not None
        made = compute_vectors(other, task.texts)

    start_new_set(store, LENGTHS)
    store_vectors(store, task.one, made)  # belongs to a set that no longer exists
    embed_all(store)

    assert [one.fingerprint for one in store.vectors.sets()] == [str(LENGTHS.fingerprint)]
    assert stored_lengths(store) == expected_lengths(store)


def test_returning_to_the_serving_embedder_cancels_the_reindex(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    other = LengthEmbedder("others")
    start_new_set(store, other)
    task = next_task(store, other, True, 3)
    assert task is not None and task.one is not None
    store_vectors(store, task.one, compute_vectors(other, task.texts))

    embed_all(store, LENGTHS)

    assert inspect_vectors(store, True) == VectorState(False, 0, str(LENGTHS.fingerprint))
    assert stored_lengths(store) == expected_lengths(store)


def test_a_reindex_without_vectors_does_nothing(store: Store) -> None:
    write_all(store, "tea")

    start_new_set(store, LENGTHS)

    assert store.vectors.sets() == []


class VectorHistories(RuleBasedStateMachine):
    """Writes, edits, deletions, rollbacks and reindexes in any order. In the end every record has
    the vector of its text."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh = fresh_store()
        self.store, self.guids, self.embedder = self._fresh.__enter__(), list[str](), LENGTHS
        self.pending = None

    def teardown(self) -> None:
        embed_all(self.store, self.embedder)
        if (serving := self.store.vectors.serving()) is not None:
            embed_all(
                self.store,
                LengthEmbedder(serving.fingerprint.partition("/")[0]),
                # the serving embedder may be the former one
            )
            assert stored_lengths(self.store) == expected_lengths(self.store)
            assert not inspect_vectors(self.store, True).todo
        self._fresh.__exit__(None, None, None)

    @contextmanager
    def changing(self, commits: bool) -> Iterator[Store]:
        self.store.begin()
        yield self.store
        if commits:
            self.store.commit()
        else:
            self.store.rollback()

    @rule(length=st.integers(0, 90))
    def write(self, length: int) -> None:
        self.guids += write_all(self.store, "x" * length)

    @rule(at=st.integers(0, 50), commits=st.booleans())
    def edit(self, at: int, commits: bool) -> None:
        with self.changing(commits) as tx:
            if self.guids and tx.records.by_guid(guid := self.guids[at % len(self.guids)]):
                append_to(tx, "y", guid=guid)

    @rule(at=st.integers(-2, 50), commits=st.booleans())
    def delete(self, at: int, commits: bool) -> None:
        with self.changing(commits) as tx:
            if self.guids:
                delete(tx, DeleteInput(guid=self.guids[at % len(self.guids)]))

    @rule()
    def take(self) -> None:
        self.pending = next_task(self.store, self.embedder, True, 4)

    @rule()
    def give(self) -> None:
        if self.pending is not None and self.pending.one is not None:
            store_vectors(
                self.store, self.pending.one, compute_vectors(self.embedder, self.pending.texts)
            )
            self.pending = None

    @rule(name=st.sampled_from(["lengths", "second"]))
    def start_reindex(self, name: str) -> None:
        self.embedder, self.pending = LengthEmbedder(name), None
        start_new_set(self.store, self.embedder)

    @rule(name=st.sampled_from(["lengths", "second"]))
    def switch_embedder(self, name: str) -> None:
        self.embedder, self.pending = LengthEmbedder(name), None

    @rule()
    def drop_cached_state(self) -> None:
        self.store.rollback()

    @invariant()
    def no_vector_is_of_another_text(self) -> None:
        if self.store.vectors.serving() is not None:
            assert stored_lengths(self.store).items() <= expected_lengths(self.store).items()


class TestVectorHistories(VectorHistories.TestCase):
    settings = settings(max_examples=20, stateful_step_count=30)


@pytest.mark.slow
class TestManyVectorHistories(VectorHistories.TestCase):
    settings = settings(max_examples=200, stateful_step_count=30)
