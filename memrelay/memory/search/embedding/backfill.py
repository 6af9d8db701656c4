"""Computes the missing vectors of a store in the background.

Each step is a short transaction under the fence. If the process ends between two steps, nothing
is lost or mixed: a vector is always stored with the text that it belongs to.
"""

from collections.abc import Sequence
from typing import NamedTuple

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.vectors import Made, VectorSet
from memrelay.memory.errors import TextRejected
from memrelay.memory.search.embedding.embedder import Embedder

# The operation that gives a store vectors.
EMBED = "records.embed"
MAX_CLEARED = 2000  # vectors deleted per step


class VectorState(NamedTuple):
    """The state of a store's vectors."""

    todo: bool  # whether a task is left
    backlog: int  # records without a vector, in the set that serves and in the next one
    fingerprint: str  # of the set that serves; "" without one
    next: str = ""  # the fingerprint of the set that is built to replace it


NOTHING_TO_DO = VectorState(False, 0, "")


class EmbeddingTask(NamedTuple):
    """Texts to embed for a set. Without texts, the step did other work, and more may follow."""

    one: VectorSet | None
    texts: list[tuple[int, str]]


def inspect_vectors(store: Store, wanted: bool) -> VectorState:
    """Return the state of a store's vectors.

    `wanted` is whether a pipeline needs vectors. A store that has some is always kept up to date.
    """
    vectors = store.vectors
    sets = vectors.sets()
    if not sets:
        return VectorState(wanted or vectors.to_clear(), vectors.records() if wanted else 0, "")
    backlog = sum(map(vectors.backlog, sets))
    todo = backlog > 0 or any(not one.serves for one in sets) or vectors.to_clear()
    following = "" if len(sets) == 1 else sets[-1].fingerprint
    return VectorState(todo, backlog, sets[0].fingerprint, following)


def next_task(
    store: Store, embedder: Embedder, wanted: bool, most: int, *, keeps_next: bool = False
) -> EmbeddingTask | None:
    """Return the next step with at most `most` texts; None if this embedder can do nothing.

    `keeps_next` is for the embedder of the set that serves, while another set is built to replace
    it. Otherwise that one is dropped, because the settings went back.
    """
    vectors, name = store.vectors, str(embedder.fingerprint)
    if wanted and not vectors.sets():
        with store.transaction():
            vectors.begin(name, embedder.fingerprint.dimension)
    if vectors.to_clear():
        with store.transaction():
            vectors.clear_some(MAX_CLEARED)
        return EmbeddingTask(None, [])
    sets = vectors.sets()
    if not keeps_next and sets and sets[0].fingerprint == name != sets[-1].fingerprint:
        with store.transaction():
            vectors.serve(sets[0])
        return EmbeddingTask(None, [])
    for one in sets:
        if one.fingerprint != name:
            continue
        if texts := vectors.outstanding(one, most):
            return EmbeddingTask(one, texts)
        if not one.serves:
            with store.transaction():
                vectors.serve(one)
            return EmbeddingTask(None, [])
    return None


def store_vectors(store: Store, one: VectorSet, made: Sequence[Made]) -> None:
    """Store computed vectors, if their set still exists."""
    with store.transaction():
        if (one.place, one.fingerprint) in [
            (other.place, other.fingerprint) for other in store.vectors.sets()
        ]:
            store.vectors.put(one, made)


def start_new_set(store: Store, embedder: Embedder) -> None:
    """Start a new set of vectors, if the store has one. The old set serves meanwhile."""
    if store.vectors.serving() is not None:
        with store.transaction():
            store.vectors.begin(str(embedder.fingerprint), embedder.fingerprint.dimension)


def compute_vectors(embedder: Embedder, texts: Sequence[tuple[int, str]]) -> list[Made]:
    """Return the vectors of (row, text); b"" for an empty text, and for one that the embedder
    rejects or finds empty.

    Raises EmbeddingFault: when the embedder fails.
    """
    empty = [Made(row, text, b"") for row, text in texts if not text]
    # An embedder may return a vector for an empty text, and a search by meaning would find it.
    return empty + _compute_vectors(embedder, [one for one in texts if one[1]])


def _compute_vectors(embedder: Embedder, texts: Sequence[tuple[int, str]]) -> list[Made]:
    if not texts:
        return []
    try:
        matrix = embedder.embed([text for _, text in texts]).astype("<f2")
    except TextRejected:
        if len(texts) == 1:
            return [Made(*texts[0], b"")]
        half = len(texts) // 2
        return _compute_vectors(embedder, texts[:half]) + _compute_vectors(embedder, texts[half:])
    return [
        Made(row, text, vector.tobytes() if vector.any() else b"")
        for (row, text), vector in zip(texts, matrix, strict=True)
    ]
