"""How the page "Memory" shows the hits of a search: each score as the sum of its parts."""

from math import prod
from typing import Any, NamedTuple
from urllib.parse import quote

Json = dict[str, Any]
ARMS = {"text": "words", "vector": "meaning", "content": "words", "parts": "parts of words"}
PLACES = {"record": "", "window": "in a neighbor", "segment": "in its thread"}
BAR_WIDTH = 100.0


class Part(NamedTuple):
    """A part of a score. `x` and `width` are its place in a bar of 100. `score` adds up."""

    name: str
    score: float
    rank: int | None
    x: float
    width: float


class Found(NamedTuple):
    """A hit. `parts` add up to `score`; `lost` is what its `factors` have taken away."""

    record: Json
    rank: int
    score: float
    parts: list[Part]
    lost: Part | None
    factors: list[tuple[str, float]]
    terms: list[tuple[str, str]]
    notes: list[str]


class Hits(NamedTuple):
    """The result of a search. `suggestions` are (misspelled word, known word, corrected query)."""

    mode: str
    found: list[Found]
    total: int
    notes: list[str]
    nothing: str
    suggestions: list[tuple[str, str, str]]


def read_hits(output: Json, mode: str, query: str) -> Hits:
    """Return the hits of records.search with `explain`."""
    explanation = output["explanation"]
    explained = {one["guid"]: one for one in explanation["hits"]}
    largest = max((_whole(one) for one in explained.values()), default=1.0) or 1.0
    found = [
        _read_hit(item["record"], explained[item["record"]["guid"]], largest)
        for item in output["items"]
        if item["record"]["guid"] in explained
    ]
    nothing = explanation["nothing"]
    return Hits(
        mode,
        found,
        explanation["records"],
        [*_list_corrections(explanation["terms"]), *explanation["notes"]],
        nothing["detail"] if nothing else "",
        _list_suggestions(explanation["terms"], query),
    )


def _whole(hit: Json) -> float:
    """Return the sum of a hit's shares, before its factors."""
    return float(sum(abs(arm["share"]) for arm in hit["arms"]))


def _read_hit(record: Json, hit: Json, largest: float) -> Found:
    factors = {name: value for name, value in hit["factors"].items() if value != 1}
    product, unit = prod(factors.values()), BAR_WIDTH / largest
    parts, x = [], 0.0
    for arm in hit["arms"]:
        score = arm["share"] * product
        width = abs(score) * unit
        if width:
            name = ARMS.get(arm["arm"], arm["arm"])
            parts.append(Part(name, score, arm["rank"], round(x, 2), round(width, 2)))
        x += width
    rest = max(0.0, _whole(hit) - sum(part.score for part in parts)) if product < 1 else 0.0
    lost = Part("lost", rest, None, round(x, 2), round(rest * unit, 2)) if rest else None
    terms = [(term["term"], PLACES[term["where"]]) for term in hit["terms"]]
    return Found(
        record, hit["rank"], hit["score"], parts, lost, [*factors.items()], terms, _notes(hit)
    )


def _notes(hit: Json) -> list[str]:
    """Return what else has set the place of a hit."""
    notes = []
    if hit["speaker"]:
        notes.append("The query names the speaker.")
    if hit["read"] is not None:
        signals = ", ".join(f"{name} {change:+.2f}" for name, change in hit["signals"].items())
        notes.append(f"Reranked: {hit['read']:.3f} sets its place among the best ({signals}).")
    return notes


def _list_suggestions(terms: list[Json], query: str) -> list[tuple[str, str, str]]:
    return [
        (term["term"], term["suggestion"], query.replace(term["term"], term["suggestion"]))
        for term in terms
        if term["suggestion"]
    ]


def _list_corrections(terms: list[Json]) -> list[str]:
    return [
        f"“{term['term']}” is in no record. Searched instead: {', '.join(term['spellings'])}."
        for term in terms
        if term["state"] == "corrected"
    ]


def record_url(uid: str, store: str, guid: str) -> str:
    """Return the address of a record's page."""
    return f"/pipelines/{uid}/memory/{quote(guid, safe='')}?store={quote(store, safe='')}"
