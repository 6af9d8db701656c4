"""JSON as people write it: parsed within bounds, and what is wrong told with its line and
column."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import orjson

from memrelay.pipelines.report import Place, Report

# How deep JSON is nested and how many keys it has: found out before, or without, much being made
# of it.

STRING = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*(:)?', re.DOTALL
)  # with the colon where it is a key


def too_many_keys(text: bytes, most: int) -> bool:
    """Whether it is JSON with more keys than that. Text that is no JSON has none.

    Each key is followed by a colon, so few colons settle it; only where there are many is it looked
    which follow a string.
    """
    return (
        text.count(b":") > most and _is_json(text) and next(islice(_keys(text), most, None), False)
    )


def opens_more(text: bytes, most: int) -> bool:
    """Whether the text opens more objects and lists than that; what does not cannot be nested
    deeper either."""
    return text.count(b"{") + text.count(b"[") > most


def is_deeper(value: Any, most: int) -> bool:
    """Whether objects and lists are nested deeper than `most`; level by level, so that nothing
    recurs."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level and depth <= most:
        depth += 1
        level = [
            inner
            for held in level
            for inner in (held.values() if type(held) is dict else held)
            if type(inner) is dict or type(inner) is list
        ]
    return depth > most


def _keys(text: bytes) -> Iterator[bool]:
    """True for each key."""
    return (True for string in STRING.finditer(text) if string.lastindex)


def _is_json(text: bytes) -> bool:
    """Checked without making anything of it. What is nested too deeply for that is left to the
    parser, which has its end."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


# What people write that is no JSON, or not what they mean, and what to write instead.

BEGINNINGS = (  # at the place of an error
    (("//", "/*", "#"), "JSON has no comments"),
    (
        ("'", "`", "\u2018", "\u2019", "\u201c", "\u201d", "\u201e"),
        'keys and texts stand in straight quotes, like "this"',
    ),
    (("True", "False", "None"), "write true, false or null"),
)
ENDS = (  # of what orjson says
    ("escaped sequence in string", 'a backslash in a text is written twice, like "\\\\s"'),
    ("control character in string", "a line break in a text is written \\n"),
)


def remedy_for(error: orjson.JSONDecodeError) -> str:
    """What to write instead; "" where that is not known."""
    remedies = [
        remedy for beginnings, remedy in BEGINNINGS if error.doc.startswith(beginnings, error.pos)
    ]
    return next(iter(remedies + [remedy for end, remedy in ENDS if error.msg.endswith(end)]), "")


def line_not_in_utf8(text: bytes) -> int:
    """The first such line, from 1; 0 where there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text.count(b"\n", 0, error.start) + 1
    return 0


def keys_that_stand_twice(text: bytes) -> list[str]:
    """In one object, each once: readers of JSON take the last of them without a word."""
    twice: dict[str, None] = {}

    def note(pairs: Iterable[tuple[str, None]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)

    json.loads(text, object_pairs_hook=note)
    return list(twice)


MOST_BYTES = 1 << 20  # of a bundle, before and after ${pipeline_uid} is filled in
MOST_DEPTH = 32
MOST_KEYS = 20_000
BOM = b"\xef\xbb\xbf"


def parse_bundle(raw: bytes | dict[str, Any], report: Report) -> dict[str, Any] | None:
    """The bundle as an object; None after telling what is wrong. A dict goes through JSON too,
    which copies it."""
    try:
        text = raw if isinstance(raw, bytes) else orjson.dumps(raw)
    except orjson.JSONEncodeError as error:
        report.error((), f"not JSON: {error}")
        return None
    if not fits(text, report):
        return None
    text = text.removeprefix(BOM)
    value = parse_object(text, (), report)
    for key in keys_that_stand_twice(text) if value is not None else ():
        report.warn(
            (),
            f"{key[:100]!r} stands twice in one object, and the last one counts",
            "leave one of them",
        )
    return value


def fits(text: bytes, report: Report) -> bool:
    """Is the bundle small enough? Tells where it is not."""
    if len(text) <= MOST_BYTES:
        return True
    report.error(
        (),
        f"a bundle has at most {MOST_BYTES} bytes; this has {len(text)}",
        "split it into several pipelines",
    )
    return False


def parse_object(text: bytes | str, place: Place, report: Report) -> dict[str, Any] | None:
    """The object that a text holds; None after telling what is wrong."""
    encoded = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    if line := line_not_in_utf8(encoded):
        report.error(place, f"not JSON: not UTF-8 (line {line})", "save it as UTF-8")
        return None
    if too_many_keys(encoded, MOST_KEYS):
        report.error(place, f"has more than {MOST_KEYS} keys", "split it into several pipelines")
        return None
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        report.error(
            place,
            f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            remedy_for(error),
        )
        return None
    return bounded_object(value, place, report)


def bounded_object(value: object, place: Place, report: Report) -> dict[str, Any] | None:
    """The value, if it is an object that is not nested too deeply; None after telling."""
    if not isinstance(value, dict):
        report.error(place, "must be a JSON object, like {}")
    elif is_deeper(value, MOST_DEPTH):
        report.error(place, f"nested deeper than {MOST_DEPTH}")
    else:
        return value
    return None
