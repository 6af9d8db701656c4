"""What a search found as a person reads it: a line a hit, and with an explanation how each came to
its score."""

from collections.abc import Iterator, Sequence
from typing import Any

from cli.readable import counted, short, table, text_lines

Json = dict[str, Any]
MOST_CONTENT = 70  # characters of a record beside its explanation
NEAR = {"record": "", "window": " (beside it)", "segment": " (in its thread)"}


def hit_lines(items: Sequence[Json]) -> Iterator[str]:
    """Score, time, kind, guid and content."""
    if not items:
        yield "Nothing found; --explain says why."
        return
    rows = [
        (
            f"{hit['score']:.3f}",
            _time(hit["record"]),
            hit["record"]["kind"][:20],
            short(hit["record"]["guid"]),
            _content(hit),
        )
        for hit in items
    ]
    yield from table([("SCORE", "CREATED", "KIND", "GUID", "CONTENT"), *rows])


def explanation_lines(output: Json) -> Iterator[str]:
    """The query as it was run, and a row a hit: its score is the sum of what the arms say, times
    what else counts."""
    told = output["explanation"]
    for name, text in _head(told):
        yield f"{name:8}  {text}"
    yield ""
    if told["nothing"] is not None:
        yield f"Nothing found ({told['nothing']['reason']}): {told['nothing']['detail']}."
        return
    names = list(dict.fromkeys(arm["arm"] for hit in told["hits"] for arm in hit["arms"]))
    heading = (
        "#",
        "SCORE",
        *(
            f"{sign} {name.upper()}"
            for sign, name in zip("=" + "+" * len(names), names, strict=False)
        ),
        "x FACTORS",
        "FOUND BY",
        "GUID",
        "CONTENT",
    )
    rows = [
        _row(hit, item, names) for hit, item in zip(told["hits"], output["items"], strict=False)
    ]
    yield from table(_without_empty([heading, *rows]))


def _without_empty(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns that have something below their heading."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


def _head(told: Json) -> Iterator[tuple[str, str]]:
    query = told["query"]
    language = f", {query['language']}" if query["language"] else ""
    yield (
        "query",
        f"{query['text']} ({query['mode']}{language}; {counted(told['records'], 'record')})",
    )
    if query["match"]:
        yield "match", query["match"]
    if query["compared"] not in ("", query["text"]):
        yield "compared", query["compared"]
    if query["excluded"] and not query["match"]:
        yield "excluded", ", ".join(query["excluded"])
    if told["filters"]:
        yield (
            "filters",
            "; ".join(f"{name} {_value(value)}" for name, value in told["filters"].items()),
        )
    for at, term in enumerate(told["terms"]):
        yield "terms" if not at else "", _term(term)
    if told["coverage"] is not None:
        yield (
            "known",
            f"{told['coverage']:.2f} of what is asked for, by weight; {told['least_coverage']:.2f} is needed",
        )
    for note in told["notes"]:
        yield "note", note


def _term(term: Json) -> str:
    if term["state"] == "unknown":
        return f"{term['term']}: no record has it" + (
            f"; did you mean {term['suggestion']}?" if term["suggestion"] else ""
        )
    if term["state"] == "speaker":
        return f"{term['term']}: who said it"
    if term["state"] == "stop word":
        return f"{term['term']}: stop word, left out"
    spelt = (
        f" ({', '.join(term['spellings'])})"
        if term["spellings"] not in ([], [term["term"]])
        else ""
    )
    left_out = {"wanted": "", "too common": "; too common, left out"}.get(
        term["state"], "; not looked for"
    )
    return f"{term['term']}: {counted(term['records'], 'record')}{spelt}{left_out}"


def _row(hit: Json, item: Json, names: Sequence[str]) -> tuple[str, ...]:
    arms = {arm["arm"]: _arm(arm) for arm in hit["arms"]}
    factors = " ".join(f"{name} {factor:.2f}" for name, factor in hit["factors"].items())
    terms = [held["term"] + NEAR[held["where"]] for held in hit["terms"]] + ["who said it"] * hit[
        "speaker"
    ]
    if hit["read"] is not None:
        terms.append(f"read again ({hit['read']:.3f})")
    if hit["raised"] is not None:
        terms.append(f"first of its thread ({hit['raised']:.3f})")
    return (
        str(hit["rank"]),
        f"{hit['score']:.3f}",
        *(arms.get(name, "") for name in names),
        factors,
        ", ".join(terms),
        short(hit["guid"]),
        _content(item),
    )


def _arm(arm: Json) -> str:
    """Rank, then raw score, calibrated score and share."""
    rank = "-" if arm["rank"] is None else f"#{arm['rank']}"
    return (
        f"{arm['share']:.3f} ({rank}, {arm['raw']:.2f} is {arm['score']:.3f}, x {arm['weight']:g})"
    )


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(record: Json) -> str:
    return str(record["created_at"])[:16].replace("T", " ")


def _content(hit: Json) -> str:
    first = text_lines(hit["record"]["content"])[0]
    return first if len(first) <= MOST_CONTENT else f"{first[:MOST_CONTENT]}…"
