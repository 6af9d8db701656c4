"""Explains a ranked search by the arrays that decided it: nothing is searched again but the terms'
surroundings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from memrelay.memory.records.record import Record
from memrelay.memory.search.boosts import NAME as ASKS
from memrelay.memory.search.explanation import (
    MOST_EXPLAINED,
    AsRun,
    ExplainedArm,
    ExplainedHit,
    ExplainedTerm,
    Explanation,
    Held,
    Nothing,
    filters_told,
)
from memrelay.memory.search.fusion import TEXT, VECTOR, by_meaning, fused
from memrelay.memory.search.query import Query, match_all
from memrelay.memory.search.results import Floats, Found, Ranked, SearchContext, candidates
from memrelay.memory.search.spelling import nearest_words
from memrelay.memory.search.terms import (
    MOST_PLACES,
    MOST_TERMS,
    Term,
    is_cut,
    stop_words_of,
    terms_of,
)
from memrelay.memory.search.text_arm import TextFound
from memrelay.memory.search.vector_arm import VectorFound
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.folding import shown
from memrelay.memory.text.stems import Stems
from memrelay.memory.text.words import plain_tokens

# The terms of a query as an explanation tells them, with what the unknown ones may have meant.

MOST_SUGGESTED = 8  # unknown words of a query; a suggestion takes 10 ms
MOST_SPELLINGS = 16  # of a term that are told


def terms_told(
    terms: Sequence[Term], states: Sequence[str], stop_words: Sequence[str], scene: SearchContext
) -> tuple[ExplainedTerm, ...]:
    """`states` are those of the terms, side by side."""
    told, suggested = [], 0
    for term, state in zip(terms, states, strict=True):
        suggestion = None
        if state == "unknown" and suggested < MOST_SUGGESTED:
            suggested += 1
            suggestion = _suggestion(term.text, scene)
        told.append(
            ExplainedTerm(
                shown(term.text),
                state,  # type: ignore[arg-type]
                term.records,
                tuple(map(shown, term.spellings[:MOST_SPELLINGS])),
                suggestion,
            )
        )
    return (*told, *(ExplainedTerm(word, "stop word", 0, (), None) for word in stop_words))


def _suggestion(text: str, scene: SearchContext) -> str | None:
    """For a single word; phrases and the like are none of them."""
    words = plain_tokens(text)
    meant = (
        nearest_words(words[0], scene.vocabulary, scene.expired)
        if len(words) == 1 and not text.endswith("*")
        else None
    )
    return None if meant is None else shown(meant)


# Why a search found nothing: the first of the reasons that is enough by itself.

NO_RECORDS = Nothing("no records", "the store has no records")
NO_LIMIT = Nothing("nothing asked", "`limit` is 0")
NO_WORDS = Nothing("nothing asked", "the query has no word to look for, and no filter")


def unfiltered(ranked: Ranked, compare: Callable[[SearchContext], VectorFound]) -> Ranked:
    """With what the vectors say of all records: a search compares those alone that are allowed."""
    *others, vector = ranked.arms
    if ranked.scene.allowed is None or not isinstance(vector, VectorFound):
        return ranked
    found = replace(compare(replace(ranked.scene, allowed=None)), least=vector.least)
    return replace(
        ranked,
        arms=(*others, found),
        scores=fused(others[0], found) if others else by_meaning(found),
    )


def empty_reason(
    ranked: Ranked,
    terms: Sequence[ExplainedTerm],
    text: TextFound | None,
    vector: VectorFound | None,
) -> Nothing:
    """Of a ranked search."""
    scene = ranked.scene
    if not len(scene.layout):
        return NO_RECORDS
    if scene.passing is not None and not scene.passing.any():
        return filtered(len(scene.layout), "in the store")
    if scene.allowed is not None and not scene.allowed.any():
        lacking = unknown(
            [term for term in terms if term.term.startswith('"')]
        )  # a phrase that stands alone must be there
        return lacking or excluded(
            len(scene.layout) if scene.passing is None else int(scene.passing.sum())
        )
    if withheld := int((ranked.scores > 0).sum()):
        return _withheld(ranked, withheld)
    return _too_little(terms, text, vector, scene.allowed)


def unknown(terms: Sequence[ExplainedTerm]) -> Nothing | None:
    """Where some of the terms are in no record."""
    missing = [term for term in terms if term.state == "unknown"]
    if not missing:
        return None
    meant = [
        f"{term.suggestion!r} is nearest_words to {term.term!r}"
        for term in missing
        if term.suggestion
    ]
    told = "no record has " + ", ".join(repr(term.term) for term in missing[:8])
    return Nothing("unknown", told + "".join(f"; {one}" for one in meant))


def filtered(records: int, what: str = "that would be found") -> Nothing:
    """There are so many records, and none passes."""
    return Nothing("filtered", f"no record passes the filters; there are {records} {what}")


def excluded(records: int) -> Nothing:
    """So many records were found that pass the filters."""
    return Nothing(
        "excluded",
        "every record that would be found has something that the query excludes, or lacks a phrase of "
        f"it; there are {records}",
    )


def _withheld(ranked: Ranked, count: int) -> Nothing:
    """What has scores is not allowed, or not wanted."""
    if len(candidates(ranked.scores, ranked.scene)):
        return NO_LIMIT
    passing = ranked.scene.passing
    left = count if passing is None else int(((ranked.scores > 0) & passing).sum())
    return excluded(left) if left else filtered(count)


def _too_little(
    terms: Sequence[ExplainedTerm],
    text: TextFound | None,
    vector: VectorFound | None,
    allowed: np.ndarray | None,
) -> Nothing:
    """Nothing has a score."""
    near = ""
    if vector is not None:
        known = vector.known if allowed is None else vector.known & allowed
        nearest_words = float(vector.score[known].max(initial=0))
        near = f"the nearest_words record in meaning has {nearest_words:.2f}, and {vector.least:.2f} is needed"
    if text is None:
        return Nothing("below threshold", near)
    missing = unknown(terms)
    if missing is not None and not any(term.records for term in terms):
        return Nothing("unknown", "; ".join(filter(None, (missing.detail, near))))
    told = f"the store knows {text.coverage:.2f} of what is asked for, by weight, and {text.least:.2f} is needed"
    return Nothing(
        "below threshold", "; ".join(filter(None, (told, missing.detail if missing else "", near)))
    )


WHERE = ("record", "window", "segment")  # as memory/search/granularities.py has them


def explained(
    ranked: Ranked, run: AsRun, query: Query, conditions: Conditions, *, found: Sequence[Record]
) -> Explanation:
    """`found` are the records of `ranked`, in its order."""
    text, vector = _arms(ranked)
    terms = _terms(text, query, run.language, ranked.scene)
    cut = ", ".join(term.text for term, _ in text.terms if not term.whole) if text else ""
    long = LONG if text and is_cut(query, run.language) else ""
    lacking = int(np.count_nonzero(~vector.known)) if vector else 0
    notes = [
        note
        for note in (
            ranked.without,
            LACKING.format(lacking, len(ranked.scene.layout)) if lacking else "",
            cut and CUT.format(cut),
            long,
            MORE if len(found) > MOST_EXPLAINED else "",
        )
        if note
    ]
    return Explanation(
        run,
        filters_told(conditions),
        len(ranked.scene.layout),
        terms,
        text.coverage if text else None,
        text.least if text else None,
        vector.least if vector else None,
        tuple(notes),
        None if found else empty_reason(ranked, terms, text, vector),
        tuple(_hits(ranked, found[:MOST_EXPLAINED], text, vector)),
    )


CUT = f"too many words begin like {{}}: they were looked for at their first {MOST_PLACES:,} places, by the alphabet"
LACKING = (
    "{:,} of {:,} records are compared by no vector: it is not made yet (`memrelay status` counts those), the embedder "
    "takes no such text, or the store is too large for that; their words alone find them"
)
LONG = (
    f"only {MOST_TERMS} words of the query are looked for, those of phrases and with a star first"
)
MORE = f"only the first {MOST_EXPLAINED} hits are explained"


def _arms(ranked: Ranked) -> tuple[TextFound | None, VectorFound | None]:
    text = next((arm for arm in ranked.arms if isinstance(arm, TextFound)), None)
    return text, next((arm for arm in ranked.arms if isinstance(arm, VectorFound)), None)


def _terms(
    text: TextFound | None, query: Query, language: str, scene: SearchContext
) -> tuple[ExplainedTerm, ...]:
    """Each once, in the order of the query; stop words last."""
    if text is None:
        return ()
    wanted = {id(term): "wanted" for term, _ in text.terms} | {
        id(term): "too common" for term in text.left_out
    }
    names = scene.layout.names.words_of(text.named)
    states = [
        wanted.get(
            id(term),
            "not looked for" if term.records else "speaker" if term.text in names else "unknown",
        )
        for term in text.asked
    ]
    return terms_told(text.asked, states, stop_words_of(query, language), scene)


def _hits(
    ranked: Ranked, found: Sequence[Record], text: TextFound | None, vector: VectorFound | None
) -> list[ExplainedHit]:
    places = ranked.places[: len(found)].tolist()
    ranks = {arm.arm: _ranks(arm, ranked.scene, places) for arm in ranked.arms}
    held = _held(ranked.scene, text, places) if text else [()] * len(places)
    hits = []
    for at, (place, record) in enumerate(zip(places, found, strict=True)):
        weights = _weights(place, text, vector)
        arms = tuple(_arm(arm, place, weights[arm.arm], ranks[arm.arm][at]) for arm in ranked.arms)
        named = (
            text is not None
            and len(text.named) == 1
            and int(ranked.scene.layout.source[place]) == text.named[0]
        )
        hits.append(
            ExplainedHit(
                record.guid,
                at + 1,
                record.score,
                arms,
                _factors(ranked, place),
                held[at],
                named,
                ranked.read.get(place),
                ranked.raised.get(place),
            )
        )
    return hits


def _weights(place: int, text: TextFound | None, vector: VectorFound | None) -> dict[str, float]:
    """As memory/search/fusion.py has them: an arm that is alone counts alone."""
    if text is None or vector is None:
        return {"text": 1.0, "vector": 1.0}
    return {"text": TEXT, "vector": VECTOR} if vector.known[place] else {"text": 1.0, "vector": 0.0}


def _arm(arm: Found, place: int, weight: float, rank: int | None) -> ExplainedArm:
    score = float(arm.score[place])
    return ExplainedArm(arm.arm, rank, float(arm.raw[place]), score, weight, weight * score)


def _ranks(arm: Found, scene: SearchContext, places: list[int]) -> list[int | None]:
    """One more than how many that are allowed have a higher score."""
    allowed: Floats = np.sort(arm.score if scene.allowed is None else arm.score[scene.allowed])
    above = len(allowed) - np.searchsorted(allowed, arm.score[places], side="right")
    return [
        int(count) + 1 if arm.score[place] > 0 else None
        for place, count in zip(places, above, strict=True)
    ]


def _factors(ranked: Ranked, place: int) -> dict[str, float]:
    factors = {name: float(by_place[place]) for name, by_place in ranked.factors.items()}
    if factors.get(ASKS) == 1:  # unlike a boost it is not asked for, so it is told where it counts
        del factors[ASKS]
    if ranked.base is not None:
        time = float(ranked.scores[place]) / (
            float(ranked.base[place]) * math.prod(factors.values())
        )
        if not math.isclose(time, 1, rel_tol=1e-5):
            return {
                "time": time,
                **factors,
            }  # less than its own where the score would have been above 1
    return factors


def _held(scene: SearchContext, text: TextFound, places: list[int]) -> list[tuple[Held, ...]]:
    """Which terms each place is found by: its own before those of its window, and these before its
    segment's."""
    held: list[list[Held]] = [[] for _ in places]
    for term, holding in text.terms:
        nearest_words: dict[int, str] = {}
        for where, granularity in reversed([*zip(WHERE, scene.granularities.all, strict=False)]):
            units, _ = granularity.counts(holding, np.ones(len(holding), np.float32))
            by_unit = np.zeros(len(granularity.lengths), np.float32)
            by_unit[units] = 1
            nearest_words |= dict.fromkeys(
                np.flatnonzero(granularity.at_places(by_unit)[places]).tolist(), where
            )
        for at, where in nearest_words.items():
            held[at].append(Held(shown(term.text), where))  # type: ignore[arg-type]
    return [tuple(one) for one in held]


# Explains a search of FTS5's: what it was asked, which index found each hit, and what stands
# between words and hits.

AS_THEY_ARE = "none"  # the language of a search that knows neither stems nor stop words


def explained_match(
    scene: SearchContext,
    run: AsRun,
    query: Query,
    conditions: Conditions,
    *,
    found: Sequence[Record],
) -> Explanation:
    """`found` is what FTS5 found for `run.match`, best first; for "" what the filters alone let
    pass."""
    asked = terms_of(query, scene, Stems(AS_THEY_ARE), AS_THEY_ARE)
    terms = terms_told(
        asked, ["wanted" if term.records else "unknown" for term in asked], (), scene
    )
    notes = (MORE,) if len(found) > MOST_EXPLAINED else ()
    nothing = None if found else _why_nothing(scene, query, terms)
    hits = _match_hits(scene.vocabulary, run.match, terms, found[:MOST_EXPLAINED])
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


def _match_hits(
    vocabulary: Vocabulary, match: str, terms: Sequence[ExplainedTerm], found: Sequence[Record]
) -> tuple[ExplainedHit, ...]:
    """FTS5's relevance is the score; it is not calibrated, and compares within an arm alone."""
    if not match:
        return tuple(
            ExplainedHit(record.guid, at, record.score, (), {}, (), False)
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
        arm = ExplainedArm(name, next(ranks[name]), record.score, record.score, 1.0, record.score)
        hits.append(ExplainedHit(record.guid, at, record.score, (arm,), {}, held, False))
    return tuple(hits)


def _why_nothing(scene: SearchContext, query: Query, terms: Sequence[ExplainedTerm]) -> Nothing:
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
