"""Get the vector of an entry's text before the transaction that needs it. Entries
work without one.
"""

from memrelay.memory.embedding.questions import Question
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.vectors import Made, VectorSet


def known_vector(tx: Transaction, text: str) -> Question | None:
    """Return the vector if the store's embedder created it before.

    Returns None if it was not created or the embedder found no meaning in the text.
    """
    fingerprint = _fingerprint(tx)
    if tx.meaning is None or not fingerprint:
        return None
    return _meaningful(tx.meaning.questions.known(text, fingerprint))


def asked_vector(tx: Transaction, text: str) -> Question | None:
    """Return the vector of the text, creating it if needed.

    Returns None if there is no embedder, it is unavailable, or it found no meaning in the text.
    Raises VectorAwaited: a retry finds the vector.
    """
    fingerprint = _fingerprint(tx)
    if tx.meaning is None or not fingerprint:
        return None
    try:
        return _meaningful(tx.meaning.questions.ask(text, fingerprint))
    except EmbeddingFault:
        return None


def keep_vector(tx: Transaction, row: int, text: str, question: Question) -> None:
    """Store the vector of the record that was just created from the text."""
    tx.vectors.put_new(
        _serving_set(tx, question), Made(row, text, question.vector.astype("<f2").tobytes())
    )


def _meaningful(question: Question | None) -> Question | None:
    return question if question is not None and question.vector.any() else None


def _serving_set(tx: Transaction, question: Question) -> VectorSet:
    """Return the store's active vector set, created if it is the first."""
    vectors = tx.vectors.serving()
    if vectors is None:
        fingerprint = question.embedder.fingerprint
        tx.vectors.begin(str(fingerprint), fingerprint.dimension)
        vectors = tx.vectors.serving()
    assert vectors is not None
    return vectors


def _fingerprint(tx: Transaction) -> str:
    """Return the embedder's fingerprint of the store's vectors.

    For a store without vectors, it is that of the loaded embedder, "" if none is loaded.
    """
    vectors = tx.vectors.serving()
    if vectors is not None:
        return vectors.fingerprint
    loaded = tx.meaning.questions.embedder.loaded if tx.meaning is not None else None
    return str(loaded.fingerprint) if loaded is not None else ""
