"""Explains a search of FTS5's: what it was asked, which index found each hit, and what stands
between words and hits."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from memory.explanation import (
    MOST_EXPLAINED,
    ArmTold,
    AsRun,
    Explanation,
    Held,
    HitTold,
    Nothing,
    TermTold,
    filters_told,
)
from memory.query import Query, match_all
from memory.recall.explained_terms import terms_told
from memory.recall.explaining import MORE
from memory.recall.nothing import NO_LIMIT, NO_RECORDS, NO_WORDS, excluded, filtered, unknown
from memory.recall.scene import Scene
from memory.recall.stems import Stems
from memory.recall.terms import terms_of
from memory.record import Record
from memory.sqlite.filters import Conditions
from memory.sqlite.vocabulary import Vocabulary

AS_THEY_ARE = "none"  # the language of a search that knows neither stems nor stop words


def explained_match(
    scene: Scene, run: AsRun, query: Query, conditions: Conditions, *, found: Sequence[Record]
) -> Explanation:
    """`found` is what FTS5 found for `run.match`, best first; for "" what the filters alone let
    pass."""
    asked = terms_of(query, scene, Stems(AS_THEY_ARE), AS_THEY_ARE)
    terms = terms_told(
        asked, ["wanted" if term.records else "unknown" for term in asked], (), scene
    )
    notes = (MORE,) if len(found) > MOST_EXPLAINED else ()
    nothing = None if found else _why_nothing(scene, query, terms)
    hits = _hits(scene.vocabulary, run.match, terms, found[:MOST_EXPLAINED])
    return Explanation(
        run,
        filters_told(conditions),
        len(scene.layout),
        terms,
        None,
        None,
        None,
        notes,
        nothing,
        hits,
    )


def _hits(
    vocabulary: Vocabulary, match: str, terms: Sequence[TermTold], found: Sequence[Record]
) -> tuple[HitTold, ...]:
    """FTS5's relevance is the score; it is not calibrated, and compares within an arm alone."""
    if not match:
        return tuple(
            HitTold(record.guid, at, record.score, (), {}, (), False)
            for at, record in enumerate(found, 1)
        )
    by_content = vocabulary.in_content(match, [record.guid for record in found])
    held, ranks = (
        tuple(Held(term.term, "record") for term in terms),
        {"content": count(1), "parts": count(1)},
    )
    hits = []
    for at, record in enumerate(found, 1):
        name = "content" if record.guid in by_content else "parts"
        arm = ArmTold(name, next(ranks[name]), record.score, record.score, 1.0, record.score)
        hits.append(HitTold(record.guid, at, record.score, (arm,), {}, held, False))
    return tuple(hits)


def _why_nothing(scene: Scene, query: Query, terms: Sequence[TermTold]) -> Nothing:
    if not query.wants_words and not query.filters:
        return NO_WORDS
    if not len(scene.layout):
        return NO_RECORDS
    if (missing := unknown(terms)) is not None:
        return missing
    matching = np.ones(len(scene.layout), bool)
    if query.wants_words:
        matching[:] = False
        matching[
            scene.layout.places(scene.vocabulary.matching(match_all(replace(query, excluded=()))))
        ] = True
    if not matching.any():
        return Nothing(
            "not together",
            "each of these is known, and no record has all of them; `mode` hybrid finds records "
            "that have some",
        )
    passing = matching if scene.passing is None else matching & scene.passing
    if not passing.any():
        return filtered(int(matching.sum()))
    return (
        NO_LIMIT
        if scene.allowed is None or (passing & scene.allowed).any()
        else excluded(int(passing.sum()))
    )
