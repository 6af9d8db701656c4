"""Format records, results and search explanations as lines of text for people."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from rich.cells import cell_len

from memrelay.cli.terminal import escaped
from memrelay.cli.terminal.output import print_json, print_line

Json = dict[str, Any]
# Characters of one text; --json prints all of it.
MAX_CHARACTERS = 2_000
# Characters of a guid: its milliseconds. One agent's guids all have the same end.
SHORT_GUID = 13
COLUMN_GAP = "  "
# Characters of a record next to its explanation.
MAX_CONTENT = 70
PLACES = {"record": "", "window": " (in a neighbor)", "segment": " (in its thread)"}


def columns(text: str) -> int:
    """Return the width of a text on a terminal, escaped as `print_line` escapes it."""
    return cell_len(escaped(text))


def padded(text: str, width: int) -> str:
    """Return the text with spaces up to a width in columns."""
    return text + " " * (width - columns(text))


def value_lines(value: Any) -> list[str]:
    """Return the lines for one result: a sentence, records, or JSON."""
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
    """Return whether a value has the guid and content of a record."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("guid"), str)
        and isinstance(value.get("content"), str)
    )


def _sentence(value: Json) -> str:
    """Return a sentence for the answer of a memory block, or "" for another value."""
    match value:
        case {"error": reason}:
            return f"Error: {reason}"
        case {"skipped": reason}:
            return f"Nothing done: {reason}"
        case {"deleted": 0}:
            return "Nothing deleted: no record has this guid."
        case {"deleted": int(count)}:
            return f"Deleted {counted(count, 'record')}."
        case {"guid": guid, "appended": True}:
            return f"Appended to {guid}"
        case {"guid": guid} if len(value) == 1 or "created" in value:
            return f"Written as {guid}"
    return ""


def _record_lines(records: Sequence[Json]) -> list[str]:
    """Return time, kind, short guid and content. Further lines of the content are indented."""
    kinds = [str(record.get("kind", ""))[:20] for record in records]
    width = max(map(columns, kinds))
    times = [moment(record.get("created_at")) for record in records]
    time_width = max(map(columns, times))  # CEST is wider than CET
    lines = []
    for record, created, kind in zip(records, times, kinds, strict=True):
        first, *more = text_lines(record["content"])
        heading = f"{padded(created, time_width)}  {padded(kind, width)}"
        lines.append(f"{heading}  {short(record['guid'])}  {first}")
        lines += [" " * (time_width + width + SHORT_GUID + 7) + line for line in more]
    return lines


def short(guid: str) -> str:
    """Return the beginning of a guid, which identifies it in a list."""
    return guid if len(guid) <= SHORT_GUID else f"{guid[:SHORT_GUID]}…"


def text_lines(text: str) -> list[str]:
    """Return the lines of a text. A long text is cut and gets a note."""
    lines = [line.removesuffix("\r") for line in text[:MAX_CHARACTERS].split("\n")]
    if len(text) > MAX_CHARACTERS:
        lines.append(f"… ({len(text)} characters; --json prints all of them)")
    return lines


def counted(number: int, noun: str) -> str:
    """Return "1 record" or "2 records"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_size(size: int) -> str:
    """Return a number of bytes in GiB, or in MiB below 1 GiB."""
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"


def moment(unix_ms: object, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a local time with its zone. Return an invalid time as text."""
    try:
        return time.strftime(f"{form} %Z", time.localtime(unix_ms / 1000))  # type: ignore[operator]
    except (TypeError, ValueError, OverflowError, OSError):
        return str(unix_ms)[:20]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with aligned columns. The first row is the heading."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield COLUMN_GAP.join(map(padded, row, widths)).rstrip()


def print_list(
    items: Iterable[Any], rows: Sequence[Sequence[str]], nothing: str = "", *, as_json: bool
) -> None:
    """Print a table with a heading on a terminal, otherwise the items, one JSON line each.

    On a terminal, `nothing` replaces a table that has only its heading.
    """
    if as_json or not sys.stdout.isatty():
        for item in items:
            print_json(item)
    elif nothing and len(rows) == 1:
        print_line(nothing)
    else:
        for line in table(rows):
            print_line(line)


DEGRADED = {
    "loading": "The embedder is loading, so only words were compared; search again.",
    "no embedder": "There is no embedder (embedding.model), so only words were compared.",
    "no vectors": "The store has no vectors (memrelay records embed), so only words were compared.",
    "incomplete": "Some records have no vector yet; they were found by their words.",
    "failed": "Meanings were not compared; --explain shows why.",
}


def hit_lines(output: Json) -> Iterator[str]:
    """Yield a table of search hits: score, time, kind, guid and content."""
    items, nothing = output["items"], output["nothing"]
    if output["degraded"]:
        yield DEGRADED[output["degraded"]]
    if nothing:
        yield _nothing_line(nothing)
    if not items:
        return
    rows = [
        (
            f"{hit['score']:.3f}",
            str(hit["record"]["created_at"])[:16].replace("T", " "),
            hit["record"]["kind"][:20],
            short(hit["record"]["guid"]),
            _content(hit),
        )
        for hit in items
    ]
    yield from table([("SCORE", "CREATED", "KIND", "GUID", "CONTENT"), *rows])


def _nothing_line(nothing: Json) -> str:
    return f"Nothing found ({nothing['reason']}): {nothing['detail']}."


def explanation_lines(output: Json) -> Iterator[str]:
    """Yield the query as it ran, and a table of hits.

    The score of a hit is the sum of its retrievers times its factors.
    """
    explanation = output["explanation"]
    for name, text in _query_lines(explanation):
        yield f"{name:8}  {text}"
    yield ""
    nothing = explanation["nothing"]
    if nothing is not None:
        yield _nothing_line(nothing)
        return
    hits = explanation["hits"]
    names = list(dict.fromkeys(arm["arm"] for hit in hits for arm in hit["arms"]))
    signs = "=" + "+" * len(names)
    arms = [f"{sign} {name.upper()}" for sign, name in zip(signs, names, strict=False)]
    heading = ("#", "SCORE", *arms, "x FACTORS", "FOUND BY", "GUID", "CONTENT")
    rows = [_row(hit, item, names) for hit, item in zip(hits, output["items"], strict=False)]
    columns_with_values = [column for column in zip(heading, *rows, strict=True) if any(column[1:])]
    yield from table(list(zip(*columns_with_values, strict=True)))


def _query_lines(explanation: Json) -> Iterator[tuple[str, str]]:
    query = explanation["query"]
    language = f", {query['language']}" if query["language"] else ""
    records = counted(explanation["records"], "record")
    yield "query", f"{query['text']} ({query['mode']}{language}; {records})"
    if query["match"]:
        yield "match", query["match"]
    if query["compared"] not in ("", query["text"]):
        yield "compared", query["compared"]
    if query["excluded"] and not query["match"]:
        yield "excluded", ", ".join(query["excluded"])
    if explanation["filters"]:
        filters = [f"{name} {_value(value)}" for name, value in explanation["filters"].items()]
        yield "filters", "; ".join(filters)
    for at, term in enumerate(explanation["terms"]):
        yield "terms" if not at else "", _term(term)
    if explanation["coverage"] is not None:
        coverage, minimum = explanation["coverage"], explanation["least_coverage"]
        yield "held", f"{coverage:.2f} of the query by weight; the minimum is {minimum:.2f}"
    for note in explanation["notes"]:
        yield "note", note


def _term(term: Json) -> str:
    if term["state"] == "unknown":
        suggestion = f" (did you mean {term['suggestion']}?)" if term["suggestion"] else ""
        return f"{term['term']}: in no record{suggestion}"
    if term["state"] == "corrected":
        return f"{term['term']}: in no record; searched as {', '.join(term['spellings'])}"
    if term["state"] == "speaker":
        return f"{term['term']}: matches the speaker"
    if term["state"] == "stop word":
        return f"{term['term']}: stop word, ignored"
    spellings = (
        f" ({', '.join(term['spellings'])})"
        if term["spellings"] not in ([], [term["term"]])
        else ""
    )
    ignored = {"wanted": "", "too common": "; too common, ignored"}.get(
        term["state"], "; not searched"
    )
    return f"{term['term']}: {counted(term['records'], 'record')}{spellings}{ignored}"


def _row(hit: Json, item: Json, names: Sequence[str]) -> tuple[str, ...]:
    arms = {arm["arm"]: _format_retriever(arm) for arm in hit["arms"]}
    factors = " ".join(f"{name} {factor:.2f}" for name, factor in hit["factors"].items())
    found_by = [term["term"] + PLACES[term["where"]] for term in hit["terms"]]
    if hit["speaker"]:
        found_by.append("the speaker")
    if hit["read"] is not None:
        signals = "".join(f" {name} {change:+.2f}" for name, change in hit["signals"].items())
        found_by.append(f"reranked ({hit['read']:.3f}:{signals})")
    return (
        str(hit["rank"]),
        f"{hit['score']:.3f}",
        *(arms.get(name, "") for name in names),
        factors,
        ", ".join(found_by),
        short(hit["guid"]),
        _content(item),
    )


def _format_retriever(arm: Json) -> str:
    """Return the share, and in parentheses rank, raw score, calibrated score and weight."""
    rank = "-" if arm["rank"] is None else f"#{arm['rank']}"
    return (
        f"{arm['share']:.3f} ({rank}, {arm['raw']:.2f} is {arm['score']:.3f}, x {arm['weight']:g})"
    )


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _content(hit: Json) -> str:
    first = text_lines(hit["record"]["content"])[0]
    return first if len(first) <= MAX_CONTENT else f"{first[:MAX_CONTENT]}…"
