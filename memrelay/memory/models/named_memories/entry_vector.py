"""Get and store the vectors of entries' texts. Entries work without one."""

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.vectors import Made, VectorSet
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.questions import EmbeddedQuestion


def find_cached_vector(tx: Transaction, text: str) -> EmbeddedQuestion | None:
    """Return the vector if the store's embedder created it before.

    Returns None if it was not created or the embedder found no meaning in the text.
    """
    fingerprint = _fingerprint(tx)
    if tx.meaning is None or not fingerprint:
        return None
    return _meaningful(tx.meaning.questions.known(text, fingerprint))


def request_vector(tx: Transaction, text: str) -> EmbeddedQuestion | None:
    """Return the vector of the text, creating it if needed.

    Returns None if there is no embedder, it is unavailable, or it found no meaning in the text.
    Raises VectorPending: a retry finds the vector.
    """
    fingerprint = _fingerprint(tx)
    if tx.meaning is None or not fingerprint:
        return None
    try:
        return _meaningful(tx.meaning.questions.ask(text, fingerprint))
    except EmbeddingFault:
        return None


def embed_merged(
    tx: Transaction, text: str, question: EmbeddedQuestion | None
) -> EmbeddedQuestion | None:
    """Return the vector of a text that is known only inside the transaction.

    `question` is the vector of the text that is merged into it. Without one, the embedder is
    not available, and None is returned.

    Raises VectorPending: a retry finds the vector. Only an endpoint has to be awaited.
    """
    if question is None or question.embedder.waits:
        return request_vector(tx, text) if question is not None else None
    try:
        (vector,) = question.embedder.embed([text])
    except EmbeddingFault:
        return None
    return _meaningful(EmbeddedQuestion(vector, question.embedder))


def store_vector(tx: Transaction, row: int, text: str, question: EmbeddedQuestion) -> None:
    """Store the vector of the record that was just created from the text, or got it."""
    tx.vectors.put_new(
        _serving_set(tx, question), Made(row, text, question.vector.astype("<f2").tobytes())
    )


def _meaningful(question: EmbeddedQuestion | None) -> EmbeddedQuestion | None:
    return question if question is not None and question.vector.any() else None


def _serving_set(tx: Transaction, question: EmbeddedQuestion) -> VectorSet:
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
