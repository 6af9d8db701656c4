"""The vector of an entry's text: made before the transaction that needs it, or done without."""

from memrelay.memory.embedding.questions import Question
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.vectors import Made, VectorSet


def known_vector(tx: Transaction, text: str) -> Question | None:
    """The vector, if it was made before, by the embedder of this store's vectors. None where that
    found nothing in the text."""
    fingerprint = _fingerprint(tx)
    return _telling(
        tx.meaning.questions.known(text, fingerprint)
        if tx.meaning is not None and fingerprint
        else None
    )


def asked_vector(tx: Transaction, text: str) -> Question | None:
    """The vector; None where there is no embedder, it is away, or it found nothing in the text.

    Raises VectorAwaited: the same again shortly will find it.
    """
    fingerprint = _fingerprint(tx)
    if tx.meaning is None or not fingerprint:
        return None
    try:
        return _telling(tx.meaning.questions.ask(text, fingerprint))
    except EmbeddingFault:
        return None


def keep_vector(tx: Transaction, row: int, text: str, question: Question) -> None:
    """Keeps it for the record that was made of the text just now."""
    tx.vectors.put_new(
        _serving(tx, question), Made(row, text, question.vector.astype("<f2").tobytes())
    )


def _telling(question: Question | None) -> Question | None:
    return question if question is not None and question.vector.any() else None


def _serving(tx: Transaction, question: Question) -> VectorSet:
    """The store's vectors; its first ones begin here."""
    one = tx.vectors.serving()
    if one is None:
        fingerprint = question.embedder.fingerprint
        tx.vectors.begin(str(fingerprint), fingerprint.dimension)
        one = tx.vectors.serving()
    assert one is not None
    return one


def _fingerprint(tx: Transaction) -> str:
    """Of the store's vectors; where it has none yet, of the embedder that would make them, if it is
    loaded."""
    one = tx.vectors.serving()
    if one is not None:
        return one.fingerprint
    loaded = tx.meaning.questions.embedder.loaded if tx.meaning is not None else None
    return str(loaded.fingerprint) if loaded is not None else ""
