"""Explains a ranked search by the arrays that decided it: nothing is searched again but the terms'
surroundings."""

import math
from collections.abc import Sequence

import numpy as np

from memory.explanation import (
    MOST_EXPLAINED,
    ArmTold,
    AsRun,
    Explanation,
    Held,
    HitTold,
    TermTold,
    filters_told,
)
from memory.folding import shown
from memory.query import Query
from memory.recall.asking import NAME as ASKS
from memory.recall.explained_terms import terms_told
from memory.recall.fusion import TEXT, VECTOR
from memory.recall.nothing import why_nothing
from memory.recall.ranked import Ranked
from memory.recall.scene import Floats, Found, Scene
from memory.recall.terms import MOST_PLACES, MOST_TERMS, is_cut, stop_words_of
from memory.recall.text_arm import TextFound
from memory.recall.vector_arm import VectorFound
from memory.record import Record
from memory.sqlite.filters import Conditions

WHERE = ("record", "window", "segment")  # as memory/recall/granularities.py has them


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
        None if found else why_nothing(ranked, terms, text, vector),
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
    text: TextFound | None, query: Query, language: str, scene: Scene
) -> tuple[TermTold, ...]:
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
) -> list[HitTold]:
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
            HitTold(
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
    """As memory/recall/fusion.py has them: an arm that is alone counts alone."""
    if text is None or vector is None:
        return {"text": 1.0, "vector": 1.0}
    return {"text": TEXT, "vector": VECTOR} if vector.known[place] else {"text": 1.0, "vector": 0.0}


def _arm(arm: Found, place: int, weight: float, rank: int | None) -> ArmTold:
    score = float(arm.score[place])
    return ArmTold(arm.arm, rank, float(arm.raw[place]), score, weight, weight * score)


def _ranks(arm: Found, scene: Scene, places: list[int]) -> list[int | None]:
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


def _held(scene: Scene, text: TextFound, places: list[int]) -> list[tuple[Held, ...]]:
    """Which terms each place is found by: its own before those of its window, and these before its
    segment's."""
    held: list[list[Held]] = [[] for _ in places]
    for term, holding in text.terms:
        nearest: dict[int, str] = {}
        for where, granularity in reversed([*zip(WHERE, scene.granularities.all, strict=False)]):
            units, _ = granularity.counts(holding, np.ones(len(holding), np.float32))
            by_unit = np.zeros(len(granularity.lengths), np.float32)
            by_unit[units] = 1
            nearest |= dict.fromkeys(
                np.flatnonzero(granularity.at_places(by_unit)[places]).tolist(), where
            )
        for at, where in nearest.items():
            held[at].append(Held(shown(term.text), where))  # type: ignore[arg-type]
    return [tuple(one) for one in held]
