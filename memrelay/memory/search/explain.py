"""Explains a search from the arrays that decided it, without a second search.

Only suggestions for unknown terms look at the store again.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.records.record import Record
from memrelay.memory.search.explanation import (
    MAX_EXPLAINED,
    EmptyReason,
    ExplainedHit,
    ExplainedRetriever,
    ExplainedTerm,
    Explanation,
    MatchedTerm,
    QueryAsRun,
    filters_by_name,
)
from memrelay.memory.search.fusion import VECTOR_SHARE, fuse, semantic_scores
from memrelay.memory.search.query import Query, match_all
from memrelay.memory.search.results import (
    Floats,
    Ranked,
    RetrieverScores,
    SearchContext,
    candidate_places,
)
from memrelay.memory.search.spelling import nearest_word
from memrelay.memory.search.terms import (
    MAX_PLACES,
    MAX_TERMS,
    Term,
    is_truncated,
    parse_terms,
    stop_words_of,
)
from memrelay.memory.search.text.folding import shown
from memrelay.memory.search.text.languages import NO_LANGUAGE
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.words import plain_tokens
from memrelay.memory.search.text_retriever import TextScores
from memrelay.memory.search.validity import VALIDITY_FACTOR
from memrelay.memory.search.vector_retriever import VectorScores

MAX_SUGGESTIONS = 8  # unknown words of a query that get one; a suggestion takes 10 ms
MAX_SPELLINGS = 16  # of a term that are shown
GRANULARITY_NAMES = ("record", "window", "segment")  # in the order of Granularities.all

CUT = (
    "too many words begin like {}: they were searched for at their first "
    f"{MAX_PLACES:,} places, in alphabetical order"
)
LACKING = (
    "{:,} of {:,} records have no vector to compare and are found only by their words: the vector "
    "is not computed yet (`memrelay status` counts those), the embedder does not accept the text, "
    "or the store is too large"
)
LONG = (
    f"only {MAX_TERMS} words of the query are searched for; "
    "words of phrases and words with a star come first"
)
MORE = f"only the first {MAX_EXPLAINED} hits are explained"

NO_RECORDS = EmptyReason("no records", "the store has no records")
NO_LIMIT = EmptyReason("nothing asked", "`limit` is 0")
NO_WORDS = EmptyReason("nothing asked", "the query has no word to search for, and no filter")
NOT_TOGETHER = EmptyReason(
    "not together",
    "each of these words occurs, but no record has all of them; "
    "`mode` hybrid finds records that have some",
)


def explain_ranked(
    ranked: Ranked,
    run: QueryAsRun,
    query: Query,
    conditions: Conditions,
    *,
    found: Sequence[Record],
) -> Explanation:
    """Explain a ranked search; `found` are the records of `ranked`, in its order."""
    text, vector = _arms(ranked)
    terms = _ranked_terms(text, query, run.language, ranked.context)
    return Explanation(
        run,
        filters_by_name(conditions),
        len(ranked.context.layout),
        terms,
        text.coverage if text else None,
        text.min_coverage if text else None,
        vector.min_score if vector else None,
        _notes(ranked, text, vector, query, run.language, found=len(found)),
        None if found else _empty_ranked(ranked, terms, text, vector),
        tuple(_ranked_hits(ranked, found[:MAX_EXPLAINED], text, vector)),
    )


def explain_match(
    context: SearchContext,
    run: QueryAsRun,
    query: Query,
    conditions: Conditions,
    *,
    found: Sequence[Record],
) -> Explanation:
    """Explain a search of FTS5.

    `found` are the records for `run.match`, best first. If that is "", they are the records that
    pass the filters.
    """
    query_terms = parse_terms(query, context, Stems(NO_LANGUAGE), NO_LANGUAGE)
    states = ["wanted" if term.records else "unknown" for term in query_terms]
    terms = _explain_terms(query_terms, states, (), context)
    return Explanation(
        run,
        filters_by_name(conditions),
        len(context.layout),
        terms,
        None,
        None,
        None,
        (MORE,) if len(found) > MAX_EXPLAINED else (),
        None if found else _empty_match(context, query, terms),
        _match_hits(context.vocabulary, run.match, terms, found[:MAX_EXPLAINED]),
    )


def with_unfiltered_vectors(
    ranked: Ranked, compare: Callable[[SearchContext], VectorScores]
) -> Ranked:
    """Return the result with vector scores of all records, instead of only the allowed ones."""
    *others, vector = ranked.arms
    if ranked.context.allowed is None or not isinstance(vector, VectorScores):
        return ranked
    compared = compare(replace(ranked.context, allowed=None))
    unfiltered = replace(compared, min_score=vector.min_score)
    return replace(
        ranked,
        arms=(*others, unfiltered),
        scores=fuse(others[0], unfiltered) if others else semantic_scores(unfiltered),
    )


def _arms(ranked: Ranked) -> tuple[TextScores | None, VectorScores | None]:
    text = next((arm for arm in ranked.arms if isinstance(arm, TextScores)), None)
    return text, next((arm for arm in ranked.arms if isinstance(arm, VectorScores)), None)


def _notes(
    ranked: Ranked,
    text: TextScores | None,
    vector: VectorScores | None,
    query: Query,
    language: str,
    *,
    found: int,
) -> tuple[str, ...]:
    cut = ", ".join(term.text for term, _ in text.terms if not term.whole) if text else ""
    lacking = int(np.count_nonzero(~vector.known)) if vector else 0
    notes = (
        ranked.missing_retriever,
        LACKING.format(lacking, len(ranked.context.layout)) if lacking else "",
        CUT.format(cut) if cut else "",
        LONG if text and is_truncated(query, language) else "",
        MORE if found > MAX_EXPLAINED else "",
    )
    return tuple(filter(None, notes))


# Terms.


def _ranked_terms(
    text: TextScores | None, query: Query, language: str, context: SearchContext
) -> tuple[ExplainedTerm, ...]:
    """Return each term once, in the order of the query, with stop words last."""
    if text is None:
        return ()
    states = {id(term): "corrected" if term.near else "wanted" for term, _ in text.terms}
    states |= {id(term): "too common" for term in text.left_out}
    return _explain_terms(
        text.all_terms,
        [states.get(id(term)) or _unscored_state(term, text.names) for term in text.all_terms],
        stop_words_of(query, language),
        context,
    )


def _unscored_state(term: Term, names: Collection[str]) -> str:
    if term.records:
        return "not looked for"
    return "speaker" if (term.meant or term.text) in names else "unknown"


def _explain_terms(
    terms: Sequence[Term],
    states: Sequence[str],
    stop_words: Sequence[str],
    context: SearchContext,
) -> tuple[ExplainedTerm, ...]:
    """Return the explained terms; `states` has the state of each term."""
    explained, suggested = [], 0
    for term, state in zip(terms, states, strict=True):
        suggestion = None
        if state == "unknown" and suggested < MAX_SUGGESTIONS:
            suggested += 1
            suggestion = _suggestion(term.text, context)
        explained.append(
            ExplainedTerm(
                shown(term.text),
                state,  # type: ignore[arg-type]
                term.records,
                tuple(map(shown, (term.spellings or term.near)[:MAX_SPELLINGS])),
                suggestion,
            )
        )
    return (*explained, *(ExplainedTerm(word, "stop word", 0, (), None) for word in stop_words))


def _suggestion(text: str, context: SearchContext) -> str | None:
    """Return the nearest word of the store for a single word; None for phrases and prefixes."""
    words = plain_tokens(text)
    if len(words) != 1 or text.endswith("*"):
        return None
    nearest = nearest_word(words[0], context.vocabulary, context.expired)
    return None if nearest is None else shown(nearest)


# Hits of a ranked search.


def _ranked_hits(
    ranked: Ranked, found: Sequence[Record], text: TextScores | None, vector: VectorScores | None
) -> list[ExplainedHit]:
    places = ranked.places[: len(found)].tolist()
    ranks = {arm.arm: _ranks(arm, ranked.context, places) for arm in ranked.arms}
    matched = _matched_terms(ranked.context, text, places) if text else [()] * len(places)
    read = {
        place: {name: float(change[at]) for name, change in ranked.signals.items() if change[at]}
        for at, place in enumerate(ranked.reranked)
    }
    hits = []
    for at, (place, record) in enumerate(zip(places, found, strict=True)):
        shares = _arm_weights(place, text, vector)
        hits.append(
            ExplainedHit(
                record.guid,
                at + 1,
                record.score,
                tuple(
                    _explain_retriever(arm, place, shares[arm.arm], ranks[arm.arm][at])
                    for arm in ranked.arms
                ),
                _factors(ranked, place),
                matched[at],
                _is_named_speaker(ranked, text, place),
                ranked.reranked.get(place),
                read.get(place, {}),
            )
        )
    return hits


def _ranks(arm: RetrieverScores, context: SearchContext, places: list[int]) -> list[int | None]:
    """Return the rank of each place among the allowed records; None without a score."""
    allowed: Floats = np.sort(arm.score if context.allowed is None else arm.score[context.allowed])
    above = len(allowed) - np.searchsorted(allowed, arm.score[places], side="right")
    return [
        int(better) + 1 if arm.score[place] > 0 else None
        for place, better in zip(places, above, strict=True)
    ]


def _matched_terms(
    context: SearchContext, text: TextScores, places: list[int]
) -> list[tuple[MatchedTerm, ...]]:
    """Return the terms of each place, with the smallest granularity that contains the term."""
    matched: list[list[MatchedTerm]] = [[] for _ in places]
    names = [*zip(GRANULARITY_NAMES, context.granularities.all, strict=False)]
    for term, holding in text.terms:
        smallest: dict[int, str] = {}
        for name, granularity in reversed(names):
            units, _ = granularity.counts(holding, np.ones(len(holding), np.float32))
            by_unit = np.zeros(len(granularity.lengths), np.float32)
            by_unit[units] = 1
            containing = np.flatnonzero(granularity.at_places(by_unit)[places])
            smallest |= dict.fromkeys(containing.tolist(), name)
        for at, name in smallest.items():
            matched[at].append(MatchedTerm(shown(term.text), name))  # type: ignore[arg-type]
    return [tuple(terms) for terms in matched]


def _arm_weights(
    place: int, text: TextScores | None, vector: VectorScores | None
) -> dict[str, float]:
    """Return the weights of the retrievers as in fusion: a single one has weight 1."""
    if text is None or vector is None:
        return {"text": 1.0, "vector": 1.0}
    if not vector.known[place]:
        return {"text": 1.0, "vector": 0.0}
    return {"text": 1 - VECTOR_SHARE, "vector": VECTOR_SHARE}


def _explain_retriever(
    arm: RetrieverScores, place: int, weight: float, rank: int | None
) -> ExplainedRetriever:
    score = float(arm.score[place])
    return ExplainedRetriever(arm.arm, rank, float(arm.raw[place]), score, weight, weight * score)


def _factors(ranked: Ranked, place: int) -> dict[str, float]:
    factors = {name: float(by_place[place]) for name, by_place in ranked.factors.items()}
    if factors.get(VALIDITY_FACTOR) == 1:  # no option turns it on, so it is shown if it counts
        del factors[VALIDITY_FACTOR]
    if ranked.base is None:
        return factors
    base = float(ranked.base[place]) * math.prod(factors.values())
    time = float(ranked.scores[place]) / base  # below the boost if the score was capped at 1
    return factors if math.isclose(time, 1, rel_tol=1e-5) else {"time": time, **factors}


def _is_named_speaker(ranked: Ranked, text: TextScores | None, place: int) -> bool:
    if text is None or len(text.speakers) != 1:
        return False
    return bool(ranked.context.layout.source[place] == text.speakers[0])


# Hits of FTS5.


def _match_hits(
    vocabulary: Vocabulary, match: str, terms: Sequence[ExplainedTerm], found: Sequence[Record]
) -> tuple[ExplainedHit, ...]:
    """Explain hits by FTS5's relevance: uncalibrated, and comparable only within a retriever."""
    if not match:
        return tuple(
            ExplainedHit(record.guid, at, record.score, (), {}, (), False)
            for at, record in enumerate(found, 1)
        )
    by_content = vocabulary.in_content(match, [record.guid for record in found])
    matched = tuple(MatchedTerm(term.term, "record") for term in terms)
    ranks = {"content": count(1), "parts": count(1)}
    hits = []
    for at, record in enumerate(found, 1):
        name = "content" if record.guid in by_content else "parts"
        arm = ExplainedRetriever(
            name, next(ranks[name]), record.score, record.score, 1.0, record.score
        )
        hits.append(ExplainedHit(record.guid, at, record.score, (arm,), {}, matched, False))
    return tuple(hits)


# Reasons for an empty result. The first sufficient reason is reported.


def _empty_ranked(
    ranked: Ranked,
    terms: Sequence[ExplainedTerm],
    text: TextScores | None,
    vector: VectorScores | None,
) -> EmptyReason:
    context = ranked.context
    if not len(context.layout):
        return NO_RECORDS
    if context.passing is not None and not context.passing.any():
        return _all_filtered(len(context.layout), "in the store")
    if context.allowed is not None and not context.allowed.any():
        # a phrase without other words is required
        phrases = [term for term in terms if term.term.startswith('"')]
        passing = len(context.layout) if context.passing is None else int(context.passing.sum())
        return _unknown_terms(phrases) or _all_excluded(passing)
    if withheld := int((ranked.scores > 0).sum()):
        return _all_withheld(ranked, withheld)
    return _scores_too_low(terms, text, vector, context.allowed)


def _empty_match(
    context: SearchContext, query: Query, terms: Sequence[ExplainedTerm]
) -> EmptyReason:
    if not query.wants_words and not query.filters:
        return NO_WORDS
    if not len(context.layout):
        return NO_RECORDS
    if (missing := _unknown_terms(terms)) is not None:
        return missing
    matching = _matching(context, query)
    if not matching.any():
        return NOT_TOGETHER
    passing = matching if context.passing is None else matching & context.passing
    if not passing.any():
        return _all_filtered(int(matching.sum()))
    if context.allowed is None or (passing & context.allowed).any():
        return NO_LIMIT
    return _all_excluded(int(passing.sum()))


def _matching(context: SearchContext, query: Query) -> NDArray[np.bool_]:
    """Return by place whether a record matches the words of the query, ignoring exclusions."""
    if not query.wants_words:
        return np.ones(len(context.layout), bool)
    matching = np.zeros(len(context.layout), bool)
    expression = match_all(structs.replace(query, excluded=()))
    matching[context.layout.places(context.vocabulary.matching(expression))] = True
    return matching


def _unknown_terms(terms: Sequence[ExplainedTerm]) -> EmptyReason | None:
    missing = [term for term in terms if term.state == "unknown"]
    if not missing:
        return None
    detail = "no record has " + ", ".join(repr(term.term) for term in missing[:8])
    for term in missing:
        if term.suggestion:
            detail += f"; {term.suggestion!r} is nearest to {term.term!r}"
    return EmptyReason("unknown", detail)


def _all_filtered(records: int, kind: str = "that would be found") -> EmptyReason:
    return EmptyReason("filtered", f"no record passes the filters; there are {records} {kind}")


def _all_excluded(records: int) -> EmptyReason:
    return EmptyReason(
        "excluded",
        "every record that would be found has something that the query excludes, "
        f"or lacks one of its phrases; there are {records}",
    )


def _all_withheld(ranked: Ranked, scored: int) -> EmptyReason:
    """Return why no record with a score was returned."""
    if len(candidate_places(ranked.scores, ranked.context)):
        return NO_LIMIT
    passing = ranked.context.passing
    left = scored if passing is None else int(((ranked.scores > 0) & passing).sum())
    return _all_excluded(left) if left else _all_filtered(scored)


def _scores_too_low(
    terms: Sequence[ExplainedTerm],
    text: TextScores | None,
    vector: VectorScores | None,
    allowed: NDArray[np.bool_] | None,
) -> EmptyReason:
    near = ""
    if vector is not None:
        known = vector.known if allowed is None else vector.known & allowed
        highest = float(vector.score[known].max(initial=0))
        near = (
            f"the record nearest in meaning scores {highest:.2f}, "
            f"and {vector.min_score:.2f} is needed"
        )
    if text is None:
        return EmptyReason("below threshold", near)
    missing = _unknown_terms(terms)
    if missing is not None and not any(term.records for term in terms):
        return EmptyReason("unknown", "; ".join(filter(None, (missing.detail, near))))
    coverage = (
        f"no window of turns holds more than {text.coverage:.2f} of the query, by weight, "
        f"and {text.min_coverage:.2f} is needed"
    )
    details = (coverage, missing.detail if missing else "", near)
    return EmptyReason("below threshold", "; ".join(filter(None, details)))
