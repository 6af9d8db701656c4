"""Stream the elements of a JSON document, whatever its size: one element is in memory at a time.

A streaming parser for JSON text rejects a whole document for a NaN and replaces lone surrogates.
Here only the element that has them is left out.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from memrelay.memory.importers.items import Fault
from memrelay.memory.importers.source import RefusedFile

# Characters that are read at once.
CHUNK = 1 << 20
# Bytes of a line of JSON lines.
MAX_LINE = 64 << 20
MAX_DEPTH = 64
_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode
_TOO_DEEP = f"the JSON is nested more than {MAX_DEPTH} deep"


def read_items(path: Path, *lists: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of a file, as `iterate` does. Raises RefusedFile and OSError."""
    with path.open("rb") as file:
        yield from iterate(file, path.name, lists)


def iterate(file: IO[bytes], name: str, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each element of a JSON array, of each element of the arrays that
    an object has under the keys `lists`, or of each line of JSON lines.

    An object without these keys is one value at the position `line 1`. Positions are `[0]`,
    `results[0]` and `line 1`. The value of a malformed line is a Fault.

    Raises RefusedFile: the document is invalid or nested too deeply.
    """
    reader = _Reader(file, name)
    first = reader.peek()
    if first == "{":
        file.seek(0)
        if _has_json_lines(file):
            yield from _lines(file)
            return
        reader.rewind()
    if first == "[":
        for at, value in enumerate(reader.elements()):
            yield f"[{at}]", value
        reader.expect_end()
    elif first == "{":
        yield from _objects(reader, lists)
    else:
        raise RefusedFile(f"{name} is not JSON: it begins with {first!r}")


def depth_exceeds(value: Any, most: int = MAX_DEPTH) -> bool:
    """Return whether lists and objects are nested more than `most` deep."""
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _objects(reader: "_Reader", lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the elements of the lists of an object, or the object itself if it has none."""
    found = False
    if lists:
        for key, elements in reader.lists(lists):
            found = True
            for at, value in enumerate(elements):
                yield f"{key}[{at}]", value
    if not found:
        reader.rewind()
        yield "line 1", reader.value()
    reader.expect_end()


def _has_json_lines(file: IO[bytes]) -> bool:
    """Return whether the first line is a whole object and another line follows."""
    try:
        is_whole = isinstance(json.loads(file.readline(MAX_LINE)), dict)
        return is_whole and any(map(bytes.strip, iter(lambda: file.readline(CHUNK), b"")))
    except (ValueError, RecursionError):
        return False
    finally:
        file.seek(0)


def _lines(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each line. A malformed line is a fault."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        position = f"line {number}"
        if line.strip():
            yield position, _parse_line(line, position)


def _parse_line(line: bytes, position: str) -> Any:
    try:
        value = json.loads(line.removeprefix(codecs.BOM_UTF8))
    except UnicodeDecodeError:
        return Fault(position, "the line is not UTF-8")
    except json.JSONDecodeError as error:
        return Fault(position, f"the line is not valid JSON: {error.msg} at character {error.pos}")
    except RecursionError:
        return Fault(position, _TOO_DEEP)
    return Fault(position, _TOO_DEEP) if depth_exceeds(value) else value


class _Reader:
    """Parses a JSON text of which only a part is in memory."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self.rewind()

    def rewind(self) -> None:
        """Start again at the beginning of the file."""
        if self._file.tell():
            self._file.seek(0)
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._is_last = "", 0, False
        # Characters before the text in memory.
        self._before = 0

    def peek(self) -> str:
        """Return the next character that is not a space, "" at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = self._at if found is None else found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read():
                return ""

    def value(self) -> Any:
        """Parse the next value."""
        self.peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._read():
                    raise self._refused(error.msg, error.pos) from error
                continue
            except RecursionError as error:
                raise RefusedFile(f"{self._name}: {_TOO_DEEP}") from error
            # A number may continue in the next part.
            if end == len(self._text) and self._read():
                continue
            self._at = end
            if depth_exceeds(value):
                raise RefusedFile(f"{self._name}: {_TOO_DEEP}")
            return value

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the next value, which is an array."""
        self._take("[")
        if self.peek() == "]":
            self._take("]")
            return
        while True:
            yield self.value()
            if self.peek() == "]":
                self._take("]")
                return
            self._take(",")

    def lists(self, wanted: Collection[str]) -> Iterator[tuple[str, Iterator[Any]]]:
        """Yield (key, elements) of the wanted arrays of the next value, which is an object."""
        self._take("{")
        if self.peek() == "}":
            self._take("}")
            return
        while True:
            key = self.value()
            self._take(":")
            if key in wanted and self.peek() == "[":
                yield key, self.elements()
            else:
                self.value()
            if self.peek() == "}":
                self._take("}")
                return
            self._take(",")

    def expect_end(self) -> None:
        """Raise RefusedFile if more text follows."""
        if self.peek():
            raise self._refused("Extra data", self._at)

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self._refused(f"Expecting {character!r}", self._at)
        self._at += 1

    def _read(self) -> bool:
        """Read more text, at least as much as is left, so that a long value takes linear time."""
        if self._is_last:
            return False
        left = len(self._text) - self._at
        chunk = self._file.read(max(CHUNK, left))
        self._is_last = not chunk
        try:
            more = self._utf8.decode(chunk, final=self._is_last)
        except UnicodeDecodeError as error:
            raise RefusedFile(f"{self._name} is not UTF-8: {error.reason}") from error
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0
        return not self._is_last or bool(more)

    def _refused(self, rule: str, at: int) -> RefusedFile:
        return RefusedFile(
            f"{self._name} is not valid JSON: {rule} at character {self._before + at}; "
            "get the file again"
        )
