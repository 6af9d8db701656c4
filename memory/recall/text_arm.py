"""The text arm: BM25 of a record, of its window and of its segment of the thread, added up.

Measured (docs/search-quality.md): the sum of the three finds a quarter more of what was asked for than the record alone.
"""
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.query import Query
from memory.recall.bm25 import Scores, idf
from memory.recall.layout import Layout, Places
from memory.recall.scene import Floats, Found, Scene
from memory.recall.stems import Stems
from memory.recall.terms import Term, terms_of
from memory.words import plain_tokens

HALF = 8.0             # the raw score that is worth one half
SPEAKER = 1.3          # how much more a record counts whose speaker the query names
LEAST_COVERAGE = 0.4   # of what is asked for, what the store must know of; of two terms, one that is not common will do
LEAST_OF_TWO = 0.3
MOST_POSTINGS = 30_000, 5   # that are read for a query: so many, and of large stores one for each so many records


@dataclass(frozen=True, slots=True)
class TextFound(Found):
    """With what was looked for."""

    terms: tuple[tuple[Term, Places], ...]   # what was looked for, and the places that hold it
    unknown: tuple[Term, ...]                # what no record holds
    left_out: tuple[Term, ...]               # what too many hold
    coverage: float                          # how much of the query the store knows of, by weight
    named: tuple[int, ...]                   # speakers whom the query names
    least: float                             # coverage below which nothing is looked for
    asked: tuple[Term, ...]                  # all that the query has

    def spoken(self, layout: Layout) -> NDArray[np.bool_] | None:
        """By place: which are turns of the speaker whom the query names; None where it names nobody, or several."""
        return layout.source == self.named[0] if len(self.named) == 1 else None


def text_arm(scene: Scene, query: Query, stems: Stems, language: str, *, beside: Collection[str] = (),
             floor: bool = True) -> TextFound:
    """Scores of all records that hold a term, or whose window or segment does.

    Nothing, where the store knows of too little that is asked for: what would be found says nothing about it. Without the
    `floor` that does not count. The words `beside` need not be known, since they are understood otherwise.
    """
    layout = scene.layout
    terms = terms_of(query, scene, stems, language)
    asked = [term for term in terms if term.records or term.text not in beside]
    said = set(plain_tokens(" ".join((*query.words, *query.phrases))))
    covered, named = coverage(asked, len(layout)), layout.named(said)
    least = 0.0 if not floor else LEAST_OF_TWO if len(asked) == 2 else LEAST_COVERAGE
    known = [term for term in terms if term.records] if covered >= least or named else []
    wanted, left_out = _affordable(known, len(layout))
    raw, held = _scores(scene, wanted)
    if len(named) == 1:
        raw[layout.source == named[0]] *= np.float32(SPEAKER)
    unknown = tuple(term for term in terms if not term.records)
    return TextFound("text", raw, raw / (raw + np.float32(HALF)), held, unknown, left_out, covered, tuple(named), least,
                     tuple(terms))


def coverage(terms: list[Term], records: int) -> float:
    """Of the weight of all terms, what those have that the store knows; 0 where there are none.

    A term's weight is bounded and means the same in stores of any size, which idf does not: it is 7.6 for what is unknown, 4.5
    for what one record of a hundred holds.
    """
    weights = [math.log(1 + 1 / (min(term.records / max(records, 1000), 1.0) + 0.0005)) for term in terms]
    known = sum(weight for term, weight in zip(terms, weights, strict=True) if term.records)
    return known / sum(weights) if weights else 0.0


def _affordable(terms: list[Term], records: int) -> tuple[list[Term], tuple[Term, ...]]:
    """(terms to look for, terms to leave out), the rarest first.

    The rarest is always looked for. What is added to it is bounded by the records that hold it: what most records hold
    tells them apart least, and costs most. The beginning of so many words that not all of them are known comes last, alone.
    """
    most = MOST_POSTINGS[0] + records // MOST_POSTINGS[1]
    ordered = sorted(terms, key=lambda term: (not term.whole, term.records, term.text))
    together = np.cumsum([term.records for term in ordered if term.whole])
    taken = max(1, int(np.searchsorted(together, most, side="right")))
    return ordered[:taken], tuple(ordered[taken:])


def _scores(scene: Scene, wanted: list[Term]) -> tuple[Floats, tuple[tuple[Term, Places], ...]]:
    """(the raw scores by place, which places hold each term). A turn has the mean of the three granularities."""
    layout, held = scene.layout, []
    sums = [Scores(granularity) for granularity in scene.granularities.all]
    for term in wanted:
        rows, counts = term.postings(scene.vocabulary).without(scene.expired)
        places = layout.places(rows)
        held.append((term, places))
        for one in sums:
            one.add(idf(len(layout), len(rows)), places, counts)
    raw = np.zeros(len(layout), np.float32)
    for one in sums:   # of a record without a thread, windows and segments are empty
        raw += one.at_places()
    if len(sums) > 1:
        raw *= np.where(layout.source >= 0, np.float32(1 / len(sums)), np.float32(1))
    return raw, tuple(held)
