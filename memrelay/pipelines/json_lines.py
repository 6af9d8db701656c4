"""Finds the line of a text in JSON at which a value begins."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from memrelay.pipelines.json_text import BOM, line_not_in_utf8

TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)
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
        """Return the path of the current value."""
        part = self.key if self.is_object else str(self.index)
        return None if self.path is None or part is None else (*self.path, part)


def find_lines(raw: bytes, pointers: Iterable[str]) -> dict[str, int]:
    """Return the lines, from 1, at which the values of JSON pointers begin.

    A value that is missing has the line of the nearest value around it. If the text is not JSON,
    all pointers have the line of its first fault.
    """
    paths = {pointer: _split(pointer) for pointer in pointers}
    raw = raw.removeprefix(BOM)
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return dict.fromkeys(paths, line_not_in_utf8(raw) or error.lineno)
    text = raw.decode()
    wanted = {path[:size] for path in paths.values() for size in range(len(path) + 1)}
    offsets = dict(_find_offsets(text, wanted))
    return {pointer: _count_lines(text, offsets, path) for pointer, path in paths.items()}


def _split(pointer: str) -> Path:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


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
