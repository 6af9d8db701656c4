"""Texts of entries: comparing them without embeddings, merging them, and their vectors.

Entries work without vectors.
"""

import math
import struct
from functools import lru_cache
from hashlib import blake2b

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.vectors import Made, VectorSet
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.questions import EmbeddedQuestion
from memrelay.memory.search.text.folding import normal
from memrelay.memory.search.text.words import plain_tokens

# Maximum length of an entry, also of a merged one. Embedders read no more.
MAX_ENTRY_CHARACTERS = 1 << 15
DIGEST_BYTES = 16
# Letters that the inflected forms of a word usually share.
PREFIX_LETTERS = 4
# Two texts with the same meaning share at least one in this many words, in some inflected form.
WORDS_PER_SHARED = 2
# Too few words to compare. A sentence in a script without spaces counts as one word.
FEW_WORDS = 2


def normalized(text: str) -> str:
    """Return the text without differences in case, white space and a trailing full stop."""
    plain = normal("NFC", text).casefold()
    return " ".join(normal("NFC", plain).split()).removesuffix(".").rstrip()


def make_digest(text: str) -> bytes:
    """Return the digest of the normalized text."""
    return blake2b(
        normalized(text).encode(errors="surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def make_digests(text: str) -> set[bytes]:
    """Return the digests of the whole entry and of each line, because a merged entry has a fact per
    line.
    """
    return {make_digest(one) for one in (text, *split_lines(text))}


def split_lines(text: str) -> list[str]:
    """Return the lines that are not blank after normalization."""
    return [line for line in text.split("\n") if normalized(line)]


def merged(old: str, new: str) -> str:
    """Return `old` with the lines of `new` that it lacks appended, or `old` itself if it has all of
    them.
    """
    present = {normalized(line) for line in split_lines(old)}
    missing = [
        line for line in new.split("\n") if normalized(line) and normalized(line) not in present
    ]
    return "\n".join([old, *missing]) if missing else old


def moved_to_end(old: str, new: str) -> str:
    """Return `old` with the line `new` as its last one, and only there."""
    moved = normalized(new)
    return "\n".join([*(line for line in old.split("\n") if normalized(line) != moved), new])


def overlap(one: str, other: str) -> bool:
    """Return whether two texts share enough words to justify a full comparison.

    It costs a hundredth of that comparison.
    """
    one_prefixes, other_prefixes = (
        _word_prefixes(one),
        {word[:PREFIX_LETTERS] for word in plain_tokens(other)},
    )
    fewer = min(len(one_prefixes), len(other_prefixes))
    return fewer <= FEW_WORDS or WORDS_PER_SHARED * len(one_prefixes & other_prefixes) >= fewer


# Cache the new text, which is compared with all others.
@lru_cache(1)
def _word_prefixes(text: str) -> set[str]:
    return {word[:PREFIX_LETTERS] for word in plain_tokens(text)}


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
    tx: Transaction, row: int, old: str, text: str, question: EmbeddedQuestion | None
) -> EmbeddedQuestion | None:
    """Return the vector of an entry that had the text `old`, and now has `text`.

    `question` is the vector of the text that was merged into it, and `row` that of its record. A
    local embedder is not called, because that would take the time of the transaction: the vector is
    the mean of those of the lines. Returns None if one of them has no vector.

    Raises VectorPending: a retry finds the vector. Only an endpoint has to be awaited.
    """
    if question is None or question.embedder.waits:
        return request_vector(tx, text) if question is not None else None
    lines = len(split_lines(text))
    if lines < 2 or text == old:
        return question
    vectors = tx.vectors.serving()
    found = tx.vectors.read_rows(vectors, [row]) if vectors is not None else []
    if not found or not found[0][1]:
        return None
    mean = question.vector.copy()
    mean[:] = struct.unpack(f"<{mean.size}e", found[0][1])  # without loading numpy here
    mean *= lines - 1
    mean += question.vector
    length = math.sqrt(float(mean @ mean))
    return EmbeddedQuestion(mean / length, question.embedder) if length else None


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
