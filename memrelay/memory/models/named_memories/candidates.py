"""Finds the entries of a memory that may be similar to a text, and compares them with it."""

from heapq import nlargest
from typing import TYPE_CHECKING

from memrelay.memory.engine.filter_sql import Conditions, has_expired
from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.named_memories.dedup.parser import LONGEST
from memrelay.memory.models.named_memories.dedup.similarity import (
    MOST_LINES,
    RELATED,
    Similarity,
    compare,
    curve_of,
    related_score,
)
from memrelay.memory.models.named_memories.entry_text import overlap, split_lines
from memrelay.memory.models.named_memories.memories import KIND
from memrelay.memory.models.named_memories.table import EntryTable
from memrelay.memory.records.record import Record
from memrelay.memory.search.text.words import plain_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Entries compared by shared words, and again by near vectors. A comparison takes a third of a ms.
CANDIDATES = 8
# Entries with rare words of the text from which these are chosen; each takes 2 us.
MAX_WITH_WORDS = 1000
# The same number if vectors provide candidates too.
MAX_WITH_BOTH = 300
CLOSE_SCORE = RELATED  # the score of the cosine from which on texts need no shared words
NOT_SIMILAR = Similarity(0.0, "nothing like it")


def find_candidates(
    tx: Transaction, memory: str, text: str, vector: "NDArray[np.float32] | None"
) -> list[tuple[int, Record, float | None]]:
    """Return (row, record, cosine) of entries with shared rare words or near vectors.

    The vector is that of the text; None without vectors.
    """
    tx.records.prepare_search()
    within = Conditions({"scope": memory, "kind": KIND})
    most = MAX_WITH_WORDS if vector is None else MAX_WITH_BOTH
    words = tx.table(EntryTable).rare(plain_tokens(text), most)
    match = " OR ".join(f'"{word}"' for word in words)
    records = dict(tx.records.placed(match, "", within, CANDIDATES)) if words else {}
    cosines: dict[int, float] = {}
    if vector is not None:
        cosines = tx.ranker.nearest(within, vector, CANDIDATES, records)
    for row in [row for row in cosines if row not in records]:
        for record in tx.records.at_rows({row: 0.0}):
            has_ended = has_expired(record.expires_at, tx.records.versions.now_ms)
            if (record.scope, record.kind) == (memory, KIND) and not has_ended:
                records[row] = record
    return [(row, record, cosines.get(row)) for row, record in records.items()]


def compare_lines(new: str, old: str, cosine: float | None, fingerprint: str) -> Similarity:
    """Compare a text with an entry, and with each of the lines that were merged into the entry.

    Only the `MOST_LINES` lines with most shared words are compared, to bound the time. A text
    above `LONGEST` characters is a duplicate only if it is equal to a line. If the cosine is not
    close, and few words are shared, the texts are not parsed.
    """
    lines = split_lines(old) if "\n" in old else ()
    if len(lines) < 2 or len(new) > LONGEST:
        far = 0.0 if cosine is None else related_score(cosine, curve_of(fingerprint))
        if far >= CLOSE_SCORE or len(new) > LONGEST or overlap(new, old):
            return compare(new, old, cosine, fingerprint)
        return NOT_SIMILAR if cosine is None else Similarity(far, "by the embedder")
    words = set(plain_tokens(new))
    nearest = nlargest(
        MOST_LINES, lines, key=lambda line: len(words.intersection(plain_tokens(line)))
    )
    near = [line for line in nearest if overlap(new, line)]
    if not near and cosine is None:
        return NOT_SIMILAR
    together = compare(new, "\n".join(near or nearest[:1]), cosine, fingerprint)
    by_line = [compare(new, line, None, fingerprint) for line in near]
    return max([together, *by_line], key=lambda one: one.score)
