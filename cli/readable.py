"""What a person reads instead of JSON: records, answers and texts as lines."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from cli.columns import columns, padded

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
