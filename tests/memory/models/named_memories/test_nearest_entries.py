"""The entries nearest to a new text: exact, and in step with writes, edits, deletions and
rollbacks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.engine.vectors import Made
from memrelay.memory.models.named_memories.candidates import CANDIDATES
from memrelay.memory.models.named_memories.entries import NewEntry, WriteResult, write_entry
from memrelay.memory.search import vector_retriever
from memrelay.memory.search.embedding.embedder import Calibration, EmbeddingOptions, Fingerprint
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import EmbeddedQuestion, QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID, NOW, make_guid, perform

WITHIN = Conditions({"scope": "m", "kind": "entry"})


class Compass:
    """An embedder in a plane. A text names a direction in degrees."""

    fingerprint, calibration, waits = Fingerprint("compass", 2, "0" * 16), Calibration(), False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        angles = np.radians([float(text.split()[0]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    meaning = SemanticResources(QuestionEmbedder(LazyEmbedder(EmbeddingOptions("none"))), Pool())
    return Store(MEMORY_ID, store_path(tmp_path, MEMORY_ID), meaning)


def write(tx: Store, degrees: int, *, memory: str = "m", **keys: object) -> WriteResult:
    text, compass = f"{degrees} degrees", Compass()
    new = NewEntry(make_guid(), memory, text, NOW, **keys)  # type: ignore[arg-type]
    return write_entry(tx, new, EmbeddedQuestion(compass.embed([text])[0], compass))


def nearest(tx: Store, degrees: int, most: int = 1) -> list[int]:
    """Return the rows, nearest first."""
    found = tx.ranker.nearest(WITHIN, Compass().embed([str(degrees)])[0], most)
    return sorted(found, key=lambda row: -found[row])


def test_only_entries_of_the_memory_are_compared(store: Store) -> None:
    with store.transaction() as tx:
        for degrees, memory in ((0, "m"), (90, "m"), (180, "m"), (88, "other"), (10, "other")):
            write(tx, degrees, memory=memory, mode="create")

        assert (
            nearest(tx, 85) == [2]
            and nearest(tx, 10, 2) == [1, 2]
            and set(nearest(tx, 0, 9)) == {1, 2, 3}
        )


def test_expired_entries_do_not_crowd_out_others(store: Store) -> None:
    with store.transaction() as tx:
        write(tx, 80, mode="create")
        fleeting = [write(tx, 90 + number, mode="create").guid for number in range(CANDIDATES)]
    for guid in fleeting:
        perform(store, "records.update", guid=guid, expires_at=format_time(NOW + 1))
    with store.transaction() as tx:
        tx.records.set_actor(NOW + 2, "tester")

        assert nearest(tx, 91) == [1]
        assert write(tx, 91, mode="merge", update_threshold=0.5).action == "updated"


def test_a_rolled_back_deletion_is_seen_only_inside_its_transaction(store: Store) -> None:
    with store.transaction() as tx:
        for degrees in (0, 90):
            write(tx, degrees, mode="create")
        assert nearest(tx, 90) == [2]
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        place = tx.records.oldest({"scope": "m"})
        assert place is not None
        tx.records.delete(place)
        assert nearest(tx, 0, 9) == [2]
        raise ZeroDivisionError
    with store.transaction() as tx:
        assert nearest(tx, 0, 9) == [1, 2]
    store.close()


def test_beyond_the_memory_budget_only_the_newest_entries_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_retriever, "MAX_READ", 2)
    meaning = SemanticResources(QuestionEmbedder(LazyEmbedder(EmbeddingOptions("none"))), Pool(8))
    store = Store(MEMORY_ID, store_path(tmp_path, MEMORY_ID), meaning)
    with store.transaction() as tx:
        for degrees in (0, 90, 180):
            write(tx, degrees, mode="create")
        assert nearest(tx, 0, 9) == [2, 3]
    store.close()


def test_rolled_back_edited_and_deleted_entries_are_not_compared(store: Store) -> None:
    with store.transaction() as tx:
        write(tx, 0)
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        write(tx, 90)
        assert nearest(tx, 90) == [2]
        raise ZeroDivisionError
    with store.transaction() as tx:
        assert nearest(tx, 90) == [1]
        write(tx, 180)  # reuses the row of the rolled back entry
        assert set(nearest(tx, 90, 9)) == {1, 2}
        assert nearest(tx, 170) == [2]
        place = tx.records.oldest({"scope": "m"})
        assert place is not None
        tx.records.replace_content(place, "another text", NOW)
        assert nearest(tx, 0, 9) == [2]
        tx.records.delete(place)
        assert nearest(tx, 0, 9) == [2]
    store.close()


def test_an_entry_moved_between_memories_is_compared_in_its_new_memory(store: Store) -> None:
    with store.transaction() as tx:
        for degrees, memory in ((0, "m"), (90, "other"), (180, "m")):
            write(tx, degrees, memory=memory, mode="create")
        assert set(nearest(tx, 90, 9)) == {1, 3}

        move(tx, 2, "m")
        move(tx, 3, "other")

        assert (
            set(nearest(tx, 90, 9)) == {1, 2} and nearest(tx, 91) == [2] and nearest(tx, 170) == [2]
        )
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        move(tx, 1, "other")
        assert nearest(tx, 90, 9) == [2]
        raise ZeroDivisionError
    with store.transaction() as tx:
        assert set(nearest(tx, 90, 9)) == {1, 2}
    store.close()


def move(tx: Store, row: int, memory: str) -> None:
    """Move an entry to another memory and embed it again, as the worker does in the background."""
    (before,) = tx.records.at_rows({row: 0.0})
    tx.records.replace(before, before._replace(scope=memory), tx.records.extras(before.guid))
    one = tx.vectors.serving()
    assert one is not None
    tx.vectors.put(
        one,
        [Made(row, before.content, Compass().embed([before.content])[0].astype("<f2").tobytes())],
    )


class UsedCompass(Compass):
    """An embedder that may only be called before a transaction."""

    fingerprint = Compass.fingerprint

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError(f"embedded in the transaction: {texts}")


def test_writers_that_merge_into_one_entry_embed_nothing_in_the_transaction(store: Store) -> None:
    def merge(tx: Store, degrees: int) -> WriteResult:
        vector = Compass().embed([str(degrees)])[0]
        new = NewEntry(make_guid(), "m", f"{degrees} degrees", NOW, update_threshold=0)
        return write_entry(
            tx, new._replace(duplicate_threshold=2), EmbeddedQuestion(vector, UsedCompass())
        )

    with store.transaction() as tx:
        actions = [merge(tx, 30 + number).action for number in range(64)]
        write(tx, 44, mode="create")
        vectors = tx.vectors.serving()
        assert vectors is not None

        assert actions == ["created"] + ["updated"] * 63
        assert nearest(tx, 61) == [1] and nearest(tx, 44) == [2]
        assert not tx.vectors.has_missing(vectors, [1, 2])
