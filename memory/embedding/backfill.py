"""What is done to a store's vectors beside its batches: each step is a short transaction of its
own, under the fence.

Nothing is lost or mixed if the process ends between two: a vector is kept with the text it was made
of, or not at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

from memrelay.memory.embedding.embedder import Embedder
from memrelay.memory.errors import TextRefused
from memrelay.memory.sqlite.store import Store
from memrelay.memory.sqlite.vectors import Made, VectorSet

CLEARED = 2000  # vectors that are deleted at once


class Look(NamedTuple):
    """How a store fares."""

    todo: bool  # whether anything is to be done
    # records that have no vector yet in the set that is searched, and in the one that is being made
    backlog: int
    fingerprint: str  # of the set that is searched; "" where there is none


NOTHING = Look(False, 0, "")


class Task(NamedTuple):
    """Texts that are to be embedded for a set; without any, something else was done, and there may
    be more."""

    one: VectorSet | None
    texts: list[tuple[int, str]]


def look(store: Store, wanted: bool) -> Look:
    """`wanted` is whether somebody wants vectors of it; a store that has some keeps them up to date
    in any case."""
    vectors = store.vectors
    sets = vectors.sets()
    if not sets:
        return Look(wanted or vectors.to_clear(), vectors.records() if wanted else 0, "")
    backlog = sum(map(vectors.backlog, sets))
    todo = backlog > 0 or any(not one.serves for one in sets) or vectors.to_clear()
    return Look(todo, backlog, sets[0].fingerprint)


def next_task(store: Store, embedder: Embedder, wanted: bool, most: int) -> Task | None:
    """What comes next, so many texts at most; None where nothing can be done with this embedder."""
    vectors, name = store.vectors, str(embedder.fingerprint)
    if wanted and not vectors.sets():
        with store.transaction():
            vectors.begin(name, embedder.fingerprint.dimension)
    if vectors.to_clear():
        with store.transaction():
            vectors.clear_some(CLEARED)
        return Task(None, [])
    sets = vectors.sets()
    if (
        sets and sets[0].fingerprint == name != sets[-1].fingerprint
    ):  # another embedder was to come, and does not any more
        with store.transaction():
            vectors.serve(sets[0])
        return Task(None, [])
    for one in sets:
        if one.fingerprint != name:
            continue
        if texts := vectors.outstanding(one, most):
            return Task(one, texts)
        if not one.serves:
            with store.transaction():
                vectors.serve(one)
            return Task(None, [])
    return None


def keep(store: Store, one: VectorSet, made: Sequence[Made]) -> None:
    """Keeps what was made, if the set is still there."""
    with store.transaction():
        if (one.place, one.fingerprint) in [
            (other.place, other.fingerprint) for other in store.vectors.sets()
        ]:
            store.vectors.put(one, made)


def remake(store: Store, embedder: Embedder) -> None:
    """Vectors are to be made anew, by this embedder, where there are some; those serve
    meanwhile."""
    if store.vectors.serving() is not None:
        with store.transaction():
            store.vectors.begin(str(embedder.fingerprint), embedder.fingerprint.dimension)


def make(embedder: Embedder, texts: Sequence[tuple[int, str]]) -> list[Made]:
    """Vectors of (row, text); a text that the embedder does not take, or finds nothing in, gets
    none. Raises EmbeddingFault."""
    try:
        matrix = embedder.embed([text for _, text in texts]).astype("<f2")
    except TextRefused:
        if len(texts) == 1:
            return [Made(*texts[0], b"")]
        half = len(texts) // 2
        return make(embedder, texts[:half]) + make(embedder, texts[half:])
    return [
        Made(row, text, vector.tobytes() if vector.any() else b"")
        for (row, text), vector in zip(texts, matrix, strict=True)
    ]
