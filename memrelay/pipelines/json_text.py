"""Parses JSON that people write, within limits. Faults have a line, a column and a remedy."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import orjson

from memrelay.pipelines.report import JsonPath, Report, split_pointer

MAX_BYTES = 1 << 20  # of a bundle, before and after ${pipeline_uid} is replaced
MAX_DEPTH = 32
MAX_KEYS = 20_000
BOM = b"\xef\xbb\xbf"
# A string, with the colon if it is a key.
STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"[ \t\r\n]*(:)?|\Z)', re.DOTALL)
# The beginnings of texts that are meant as JSON.
JSON_BEGINNINGS = ("{", "[", '"')
# Common mistakes: the text at the place of an error, and the remedy.
BEGINNINGS = (
    (("//", "/*", "#"), "JSON has no comments"),
    (
        ("'", "`", "\u2018", "\u2019", "\u201c", "\u201d", "\u201e"),
        'keys and texts are in straight quotes, like "this"',
    ),
    (("True", "False", "None"), "write true, false or null"),
)
# The end of orjson's message, and the remedy.
ENDS = (
    ("escaped sequence in string", 'write a backslash in a text twice, like "\\\\s"'),
    ("control character in string", "write a line break in a text as \\n"),
)


def parse_bundle(raw: bytes | dict[str, Any], report: Report) -> dict[str, Any] | None:
    """Return the bundle as a new object, or None after reporting a fault."""
    try:
        text = raw if isinstance(raw, bytes) else orjson.dumps(raw)
    except orjson.JSONEncodeError as error:
        report.error((), f"not JSON: {error}")
        return None
    if not fits(text, report):
        return None
    text = text.removeprefix(BOM)
    value = parse_object(text, (), report)
    for key in duplicate_keys(text) if value is not None else ():
        rule = f"one object has the key {key[:100]!r} twice; the last value counts"
        report.warn((), rule, "remove one of them")
    return value


def fits(text: bytes, report: Report) -> bool:
    """Return whether the bundle is small enough, after reporting a fault."""
    if len(text) <= MAX_BYTES:
        return True
    rule = f"the bundle has {len(text)} bytes; at most {MAX_BYTES}"
    report.error((), rule, "split it into several pipelines")
    return False


def parse_object(text: bytes | str, path: JsonPath, report: Report) -> dict[str, Any] | None:
    """Return the object in a text, or None after reporting a fault."""
    encoded = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    if line := line_not_in_utf8(encoded):
        report.error(path, f"not JSON: not UTF-8 (line {line})", "save it as UTF-8")
        return None
    if too_many_keys(encoded, MAX_KEYS):
        report.error(path, f"has more than {MAX_KEYS} keys", "split it into several pipelines")
        return None
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        rule = f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        report.error(path, rule, remedy_for(error))
        return None
    return bounded_object(value, path, report)


def parse_as(kind: str, name: str, text: str, report: Report) -> Any:
    """Return the value of a parameter given as text. `kind` is its JSON type, "" for any type.

    A text for a parameter of any type is JSON, or else the string itself. A text that begins like
    an object, a list or a quoted text must be JSON.
    """
    if kind == "object":
        return parse_object(text, (name,), report)
    if kind:
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not text.lstrip().startswith(JSON_BEGINNINGS):
            return text
        rule = f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        quoted = "write it as JSON; a text with such a beginning needs quotes, like '\"[x\"'"
        report.error((name,), rule, remedy_for(error) or quoted)
        return None


def bounded_object(value: object, path: JsonPath, report: Report) -> dict[str, Any] | None:
    """Return the value if it is an object with at most MAX_DEPTH levels; otherwise report it."""
    if not isinstance(value, dict):
        report.error(path, "must be a JSON object, like {}")
    elif is_deeper(value, MAX_DEPTH):
        report.error(path, f"nested deeper than {MAX_DEPTH}")
    else:
        return value
    return None


def remedy_for(error: orjson.JSONDecodeError) -> str:
    """Return the remedy of a common mistake, or ""."""
    remedies = [
        remedy for beginnings, remedy in BEGINNINGS if error.doc.startswith(beginnings, error.pos)
    ]
    return next(iter(remedies + [remedy for end, remedy in ENDS if error.msg.endswith(end)]), "")


def line_not_in_utf8(text: bytes) -> int:
    """Return the first line that is not UTF-8, counted from 1; 0 if there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text.count(b"\n", 0, error.start) + 1
    return 0


def duplicate_keys(text: bytes) -> list[str]:
    """Return the keys that occur twice in one object. JSON parsers silently use the last value."""
    twice: dict[str, None] = {}

    def note(pairs: Iterable[tuple[str, None]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)

    json.loads(text, object_pairs_hook=note)
    return list(twice)


def too_many_keys(text: bytes, most: int) -> bool:
    """Return whether a text is JSON with more than `most` keys. It does not build the value.

    A colon follows each key, so few colons decide quickly.
    """
    keys = (True for string in STRING.finditer(text) if string.lastindex)
    return text.count(b":") > most and _is_json(text) and next(islice(keys, most, None), False)


def opens_more(text: bytes, most: int) -> bool:
    """Return whether a text opens more than `most` objects and lists.

    Otherwise its nesting is not deeper than `most` either.
    """
    return text.count(b"{") + text.count(b"[") > most


def is_deeper(value: Any, most: int) -> bool:
    """Return whether objects and lists are nested deeper than `most`, without recursion."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level and depth <= most:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return depth > most


def _is_json(text: bytes) -> bool:
    """Return whether the text is JSON. The parser reports nesting that is too deep for this."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


TOKEN = re.compile(r'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)
# The keys and the indexes of lists that lead to a value, as in its pointer.
Path = tuple[str, ...]


@dataclass(slots=True)
class _Open:
    """An object or a list around the current token. `path` is None if nothing in it is wanted.

    `index` counts the values of a list. `key` is the current key of an object, None before it.
    """

    path: Path | None
    is_object: bool
    index: int = 0
    key: str | None = None

    def find_value_path(self) -> Path | None:
        part = self.key if self.is_object else str(self.index)
        return None if self.path is None or part is None else (*self.path, part)


def find_lines(raw: bytes, pointers: Iterable[str]) -> dict[str, int]:
    """Return the lines, from 1, at which the values of JSON pointers begin.

    A value that is missing has the line of the nearest value around it. If the text is not JSON,
    all pointers have the line of its first fault.
    """
    paths = {pointer: split_pointer(pointer) for pointer in pointers}
    raw = raw.removeprefix(BOM)
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return dict.fromkeys(paths, line_not_in_utf8(raw) or error.lineno)
    text = raw.decode()
    wanted = {path[:size] for path in paths.values() for size in range(len(path) + 1)}
    offsets = dict(_find_offsets(text, wanted))
    return {pointer: _count_lines(text, offsets, path) for pointer, path in paths.items()}


def _count_lines(text: str, offsets: dict[Path, int], path: Path) -> int:
    while path not in offsets:
        path = path[:-1]
    return 1 + text.count("\n", 0, offsets[path])


def _find_offsets(text: str, wanted: set[Path]) -> Iterator[tuple[Path, int]]:
    """Yield the wanted paths with the offset of the value, in an object that of its key."""
    stack: list[_Open] = []
    for match in TOKEN.finditer(text):
        word, top = match[0], stack[-1] if stack else None
        if word in ("}", "]"):
            stack.pop()
            continue
        if top is not None and word == ",":
            top.index, top.key = top.index + 1, None
            continue
        is_key = top is not None and top.is_object and top.key is None
        if top is not None and is_key:
            top.key = json.loads(word) if top.path is not None else ""
        path = () if top is None else top.find_value_path()
        found = path if path in wanted else None
        if found is not None and (is_key or top is None or not top.is_object):
            yield found, match.start()
        if word in ("{", "["):
            stack.append(_Open(found, word == "{"))
