"""FTS5's relevance, reckoned in memory, for words that very many records hold: the order of
docs/search.md, to the last bit.

FTS5 counts the records of each word, and looks up how long each record is that it ranks, for every
search: 0.6 us for a match,
0.05 for each record that holds one of the words. Here a match takes some 0.02, since both are kept.
"""

import math
from collections.abc import Sequence

import numpy as np

from memory.query import Query
from memory.recall.ranked import Doubles, best
from memory.recall.scene import Scene
from memory.sqlite.postings import BYTES_A_POSTING, Postings, room_of
from memory.sqlite.row_numbers import Rows
from memory.sqlite.vocabulary import Vocabulary
from memory.words import taken_apart, tokens

K1, B, LEAST_IDF = 1.2, 0.75, 1e-6  # FTS5's own
LEAST = 50_000  # records that hold the words, together, from which on this is faster
MOST_COUNTED = 2000  # words
GROWN = 1.25  # times the rows that a store had when a word was counted: then it is counted again


class Relevance:
    """For one store, inside its open transaction."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """No word is counted yet."""
        self._vocabulary = vocabulary
        self._counted: dict[
            str, tuple[int, int]
        ] = {}  # word -> (records that hold it, highest row then)

    def is_faster(self, words: Sequence[str], last_row: int) -> bool:
        """Whether so many records hold the words; not, where what must be kept of them has no
        room."""
        together = sum(self._about(word, last_row) for word in words)
        return together >= LEAST and together * BYTES_A_POSTING <= room_of(last_row)

    def _about(self, word: str, last_row: int) -> int:
        """How many records held the word when it was counted."""
        count, rows = self._counted.get(word, (0, 0))
        if last_row > rows * GROWN:
            if len(self._counted) >= MOST_COUNTED:
                self._counted.clear()
            count = self._vocabulary.among((word,)).get(word, 0)
            self._counted[word] = count, last_row
        return count

    def best(self, scene: Scene, words: Sequence[str], limit: int) -> dict[int, float]:
        """Row -> score of the best of those whose content holds all the words, the best first, of
        equal ones the oldest."""
        layout, held = scene.layout, [self._vocabulary.contents(word) for word in words]
        rows = min((one.rows for one in held), key=len)
        for one in held:
            rows = rows[one.counts_at(rows) > 0]
        places = layout.places(rows)  # without what has expired
        if scene.allowed is not None:
            places = places[scene.allowed[places]]
        if not len(places):
            return {}
        records, length = self._vocabulary.totals(words[0])
        norm: Doubles = K1 * (
            (1 - B) + (B * layout.tokens[places].astype(np.float64)) / (length / records)
        )
        scores = np.zeros(len(layout))
        for one in held:
            scores[places] += _worth(one, layout.row[places], records, norm)
        found = best(scores, places, scene, limit)
        return dict(zip(layout.row[found].tolist(), scores[found].tolist(), strict=True))


def plain_words(query: Query) -> tuple[str, ...]:
    """The words as the index has them, where the query has nothing else that is wanted, and none is
    found by its parts."""
    if query.phrases or query.prefixes:
        return ()
    words = [tokens(word) for word in query.words]
    plain = all(
        len(found) == 1 and taken_apart(word) is None
        for word, found in zip(query.words, words, strict=True)
    )
    return tuple(found for (found,) in words) if plain else ()


def _worth(held: Postings, rows: Rows, records: int, norm: Doubles) -> Doubles:
    """What a word that all of the rows hold adds to the score of each, in the order in which FTS5
    reckons."""
    holding = len(held.rows)
    idf = math.log((records - holding + 0.5) / (holding + 0.5))
    counts = held.counts_at(rows).astype(np.float64)
    return (idf if idf > 0 else LEAST_IDF) * ((counts * (K1 + 1)) / (counts + norm))
