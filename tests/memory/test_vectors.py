"""The vectors of a store: each of the text that its record has, whatever happens to the record
meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memrelay.memory.embedding.backfill import Look, keep, look, make, next_task, remake
from memrelay.memory.embedding.embedder import Calibration, Embedder, Fingerprint
from memrelay.memory.embedding.loading import other_model
from memrelay.memory.errors import EmbeddingFault, TextRefused
from memrelay.memory.operations.records_delete import DeleteInput, delete
from memrelay.memory.sqlite.store import Store
from memrelay.memory.timestamps import as_time
from tests.memory.builders import NOW, append_to, fresh_store, make_store, perform, write_all


class Lengths:
    """An embedder of two dimensions, by which each length of a text has a vector of its own. It
    refuses texts with `bad`."""

    calibration = Calibration()
    waits = False

    def __init__(self, name: str = "lengths") -> None:
        self.fingerprint = Fingerprint(name, 2, "0" * 64)
        self.asked: list[list[str]] = []

    def embed(self, texts: list[str]) -> np.ndarray:
        self.asked.append(list(texts))
        if any("bad" in text for text in texts):
            raise TextRefused("not this one")
        angles = np.array([len(text) for text in texts]) / 100
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


LENGTHS: Embedder = Lengths()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def embed_all(store: Store, embedder: Embedder = LENGTHS, most: int = 3) -> int:
    """Everything that is outstanding; in how many steps."""
    steps = 0
    while (task := next_task(store, embedder, True, most)) is not None:
        steps += 1
        if task.one is not None:
            keep(store, task.one, make(embedder, task.texts))
    return steps


def lengths_found(store: Store) -> dict[int, int]:
    """Row -> the length of the text that its vector is of, of the set that serves."""
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


def lengths_wanted(store: Store) -> dict[int, int]:
    return {
        row: len(content)
        for row, content in store._connection.execute("SELECT row, content FROM records")
    }


def test_a_store_has_no_vectors_until_they_are_wanted(store: Store) -> None:
    write_all(store, "tea", "coffee")

    unwanted = next_task(store, LENGTHS, False, 3)

    assert unwanted is None
    assert store.vectors.sets() == []
    assert not look(store, False).todo
    assert look(store, True).todo


def test_every_record_gets_the_vector_of_its_text(store: Store) -> None:
    write_all(store, *["x" * length for length in range(20)])

    steps = embed_all(store)

    assert steps == 7
    assert lengths_found(store) == lengths_wanted(store)
    assert look(store, True) == (False, 0, str(LENGTHS.fingerprint))


def test_a_turn_is_embedded_with_who_said_it(store: Store) -> None:
    write_all(store, "tea, please", source="Ada", thread="breakfast")
    embedder = Lengths()

    embed_all(store, embedder)

    assert embedder.asked == [["Ada said: tea, please"]]


def test_an_edit_takes_the_vector_away_until_there_is_a_new_one(store: Store) -> None:
    first, _ = write_all(store, "tea", "coffee")
    embed_all(store)

    with store.transaction() as tx:
        append_to(tx, "with milk", guid=first)

    assert lengths_found(store) == {2: 6}
    assert look(store, True).backlog == 1
    embed_all(store)
    assert lengths_found(store) == {1: 13, 2: 6}


def test_an_edit_of_what_it_was_not_made_of_leaves_the_vector(store: Store) -> None:
    guid, turn = (
        write_all(store, "tea", source="Ada", thread=thread)[0] for thread in (None, "talk")
    )
    embed_all(store)

    for name, value in {
        "tags": ["hot"],
        "kind": "note",
        "data": {"a": 1},
        "expires_at": as_time(NOW + 60_000),
    }.items():
        perform(store, "records.update", guid=guid, **{name: value})

    assert lengths_found(store) == {1: 3, 2: 13} and look(store, True).backlog == 0
    perform(store, "records.update", guid=turn, source="Bo")
    embed_all(store)
    assert lengths_found(store) == {1: 3, 2: 12}


def test_a_rollback_brings_the_vector_back(store: Store) -> None:
    (guid,) = write_all(store, "tea")
    embed_all(store)

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        append_to(tx, "with milk", guid=guid)
        raise ZeroDivisionError

    assert lengths_found(store) == {1: 3}
    assert look(store, True).backlog == 0


def test_a_vector_goes_with_its_record(store: Store) -> None:
    first, *_ = write_all(store, "tea", "coffee", "water")
    embed_all(store)

    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=first))
    assert set(lengths_found(store)) == {2, 3}

    with store.transaction() as tx:
        delete(tx, DeleteInput(kind="observation"))
    assert lengths_found(store) == {}
    assert look(store, True).backlog == 0


def test_a_row_that_is_given_to_another_record_has_that_ones_vector(
    store: Store, tmp_path: Path
) -> None:
    *_, last = write_all(store, "tea", "coffee")
    embed_all(store)
    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=last))
    store.close()

    again = make_store(tmp_path)
    write_all(again, "water")
    embed_all(again)

    assert lengths_found(again) == lengths_wanted(again) == {1: 3, 2: 5}
    again.close()


def test_a_row_that_is_given_anew_while_others_are_embedded_gets_its_vector(store: Store) -> None:
    write_all(store, "tea")
    *_, between, last = write_all(store, "milk", "coffee", "water")
    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=between))
    task = next_task(store, LENGTHS, True, 10)
    assert task is not None and task.one is not None

    with store.transaction() as tx:
        delete(tx, DeleteInput(guid=last))
    with suppress(ZeroDivisionError), store.transaction():  # after a rollback rows are given anew
        raise ZeroDivisionError
    write_all(store, "lemonade")
    keep(store, task.one, make(LENGTHS, task.texts))
    embed_all(store)

    assert lengths_found(store) == lengths_wanted(store) == {1: 3, 2: 4, 3: 8}


@pytest.mark.parametrize("happens", ["edited", "deleted"])
def test_what_changes_while_it_is_embedded_does_not_get_the_old_vector(
    store: Store, happens: str
) -> None:
    guid, _ = write_all(store, "tea", "coffee")
    task = next_task(store, LENGTHS, True, 10)
    assert task is not None and task.one is not None
    made = make(LENGTHS, task.texts)

    with store.transaction() as tx:
        append_to(tx, "with milk", guid=guid) if happens == "edited" else delete(
            tx, DeleteInput(guid=guid)
        )
    keep(store, task.one, made)

    assert lengths_found(store) == {2: 6}
    embed_all(store)
    assert lengths_found(store) == lengths_wanted(store)


def test_a_text_that_the_embedder_refuses_holds_up_no_other(store: Store) -> None:
    write_all(store, "tea", "bad", "coffee", "bad too", "water")

    embed_all(store, most=10)

    assert lengths_found(store) == {1: 3, 3: 6, 5: 5}
    assert look(store, True).backlog == 0


def test_another_embedder_touches_nothing_and_the_fault_says_what_to_do(store: Store) -> None:
    write_all(store, "tea")
    embed_all(store)
    other = Lengths("others")
    write_all(store, "coffee")

    task = next_task(store, other, True, 10)

    assert task is None
    assert lengths_found(store) == {1: 3}
    fault = other_model(look(store, True).fingerprint, other)
    assert isinstance(fault, EmbeddingFault)
    assert "memrelay reindex" in str(fault)


def test_vectors_are_made_anew_beside_those_that_serve(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    other = Lengths("others")

    remake(store, other)
    for _ in range(2):
        task = next_task(store, other, True, 3)
        assert task is not None and task.one is not None
        keep(store, task.one, make(other, task.texts))
    meanwhile = store.vectors.serving()
    embed_all(store, other)

    assert meanwhile is not None and meanwhile.fingerprint == str(LENGTHS.fingerprint)
    assert [one.fingerprint for one in store.vectors.sets()] == [str(other.fingerprint)]
    assert lengths_found(store) == lengths_wanted(store)
    assert not store.vectors.to_clear()


def test_making_them_anew_may_be_begun_again_by_yet_another_embedder(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    for other in (Lengths("second"), Lengths("third")):
        remake(store, other)
        task = next_task(store, other, True, 3)
        assert task is not None and task.one is not None
        made = make(other, task.texts)

    remake(store, LENGTHS)
    keep(store, task.one, made)  # of a set that is there no more
    embed_all(store)

    assert [one.fingerprint for one in store.vectors.sets()] == [str(LENGTHS.fingerprint)]
    assert lengths_found(store) == lengths_wanted(store)


def test_an_embedder_that_is_brought_back_finds_nothing_left_to_do(store: Store) -> None:
    write_all(store, *"abcdefgh")
    embed_all(store)
    other = Lengths("others")
    remake(store, other)
    task = next_task(store, other, True, 3)
    assert task is not None and task.one is not None
    keep(store, task.one, make(other, task.texts))

    embed_all(store, LENGTHS)

    assert look(store, True) == Look(False, 0, str(LENGTHS.fingerprint))
    assert lengths_found(store) == lengths_wanted(store)


def test_without_vectors_there_is_nothing_to_make_anew(store: Store) -> None:
    write_all(store, "tea")

    remake(store, LENGTHS)

    assert store.vectors.sets() == []


class VectorsInStep(RuleBasedStateMachine):
    """Writes, edits, deletions, rollbacks and rebuilds in any order: in the end every record has
    its own vector."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh = fresh_store()
        self.store, self.guids, self.embedder = self._fresh.__enter__(), list[str](), LENGTHS
        self.pending = None

    def teardown(self) -> None:
        embed_all(self.store, self.embedder)
        if (serving := self.store.vectors.serving()) is not None:
            embed_all(
                self.store, Lengths(serving.fingerprint.partition("/")[0])
            )  # it may be one that was set back
            assert lengths_found(self.store) == lengths_wanted(self.store)
            assert not look(self.store, True).todo
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
            keep(self.store, self.pending.one, make(self.embedder, self.pending.texts))
            self.pending = None

    @rule(name=st.sampled_from(["lengths", "second"]))
    def make_anew(self, name: str) -> None:
        self.embedder, self.pending = Lengths(name), None
        remake(self.store, self.embedder)

    @rule(name=st.sampled_from(["lengths", "second"]))
    def set_another(self, name: str) -> None:
        self.embedder, self.pending = Lengths(name), None

    @rule()
    def forget_what_is_in_memory(self) -> None:
        self.store.rollback()

    @invariant()
    def no_vector_is_of_another_text(self) -> None:
        if self.store.vectors.serving() is not None:
            assert lengths_found(self.store).items() <= lengths_wanted(self.store).items()


TestVectorsInStep = VectorsInStep.TestCase
TestVectorsInStep.settings = settings(max_examples=40, stateful_step_count=30)
