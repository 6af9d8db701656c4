"""What a person reads instead of JSON: records, answers and texts as lines."""

import time
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import category, east_asian_width

import orjson

from memrelay.cli.terminal.output import escaped

# How wide a text is on a terminal: letters of Chinese, Japanese and Korean and emoji take two
# columns, marks on them none.

NO_COLUMN = ("Mn", "Me", "Cf")  # marks that stand over the letter before, and joiners


def columns(text: str) -> int:
    """How many columns it takes once it is printed, as `print_line` escapes it."""
    return (
        len(text) if text.isascii() and text.isprintable() else sum(map(_columns_of, escaped(text)))
    )


def padded(text: str, width: int) -> str:
    """The text with spaces after it, up to so many columns."""
    return text + " " * (width - columns(text))


def _columns_of(sign: str) -> int:
    if category(sign) in NO_COLUMN:
        return 0
    return 2 if east_asian_width(sign) in "WF" else 1


MOST_CHARACTERS = 2_000  # of one text; --json prints all of it
SHORT = 13  # characters of a guid: the millisecond; its end is alike in all that one agent writes
UNDER = "  "


def value_lines(value: Any) -> list[str]:
    """What a result says."""
    match value:
        case str(text):
            return text_lines(text)
        case []:
            return ["Nothing found."]
        case [*records] if all(map(is_record, records)):
            return _record_lines(records)
        case {"records": list(records), "explanation": {"nothing": nothing}}:
            return [f"Nothing found: {nothing['detail']}."] if nothing else _record_lines(records)
        case dict() if is_record(value):
            return _record_lines([value])
        case dict() if sentence := _sentence(value):
            return text_lines(sentence)
    return text_lines(orjson.dumps(value).decode())


def is_record(value: Any) -> bool:
    """Whether it has what every record has."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("guid"), str)
        and isinstance(value.get("content"), str)
    )


def _sentence(value: dict[str, Any]) -> str:
    """The answers of memory blocks; "" for others."""
    match value:
        case {"error": reason}:
            return f"Error: {reason}"
        case {"skipped": reason}:
            return f"Nothing was done: {reason}"
        case {"deleted": 0}:
            return "Nothing was deleted: no record has this guid."
        case {"deleted": int(count)}:
            return f"Deleted {counted(count, 'record')}."
        case {"guid": guid, "appended": True}:
            return f"Appended to {guid}"
        case {"guid": guid} if len(value) == 1 or "created" in value:
            return f"Written as {guid}"
    return ""


def _record_lines(records: Sequence[dict[str, Any]]) -> list[str]:
    """Time, kind, the beginning of the guid, and the content, which may take several lines."""
    kinds = [str(record.get("kind", ""))[:20] for record in records]
    width = max(map(columns, kinds))
    lines = []
    for record, kind in zip(records, kinds, strict=True):
        first, *more = text_lines(record["content"])
        lines.append(
            f"{moment(record.get('created_at'))}  {padded(kind, width)}  {short(record['guid'])}  {first}"
        )
        lines += [" " * (16 + width + SHORT + 7) + line for line in more]
    return lines


def short(guid: str) -> str:
    """Enough of a guid to know it again."""
    return guid if len(guid) <= SHORT else f"{guid[:SHORT]}…"


def text_lines(text: str) -> list[str]:
    """The lines of a text, the beginning alone where it is very long."""
    lines = [line.removesuffix("\r") for line in text[:MOST_CHARACTERS].split("\n")]
    if len(text) > MOST_CHARACTERS:
        lines.append(f"… ({len(text)} characters; --json prints all of them)")
    return lines


def counted(number: int, what: str) -> str:
    """1 record, 2 records."""
    return f"{number} {what}{'s' * (number != 1)}"


def moment(unix_ms: object, form: str = "%Y-%m-%d %H:%M") -> str:
    """A time here, or what came in its place."""
    try:
        return time.strftime(form, time.localtime(unix_ms / 1000))  # type: ignore[operator]
    except (TypeError, ValueError, OverflowError, OSError):
        return str(unix_ms)[:20]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns below each other; the first is the heading."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield UNDER.join(map(padded, row, widths)).rstrip()


# What a search found as a person reads it: a line a hit, and with an explanation how each came to
# its score.

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
