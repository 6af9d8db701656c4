"""Stream the elements of a JSON document of any size, with one element in memory at a time."""

import codecs
import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import ijson

from memrelay.memory.transfer.importers.containers.json_guard import CHUNK, MAX_DEPTH, JsonGuard
from memrelay.memory.transfer.importers.items import Fault
from memrelay.memory.transfer.importers.source import RefusedFile

# Bytes of a line of JSON lines, and of the first one.
MAX_LINE, MAX_FIRST_LINE = 64 << 20, 4 << 20
_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(.?)", re.DOTALL)
_TOO_DEEP = f"the JSON is nested more than {MAX_DEPTH} deep"


def read_items(path: Path, *lists: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of a file, as `iterate` does. Raises RefusedFile and OSError."""
    with path.open("rb") as file:
        yield from iterate(file, path.name, lists)


def iterate(file: IO[bytes], name: str, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each element of a JSON array, or of each line of JSON lines.

    For an object, yield the elements of its arrays under the keys `lists`, in this order. An object
    without these arrays is one value at the position `line 1`. Positions are `[0]`, `results[0]`
    and `line 1`. The value of a malformed line is a Fault. Values are those of `json.loads`: a lone
    surrogate or NaN reaches the caller, which leaves out the item that has it.

    Raises RefusedFile: when the document is no valid JSON, is nested more than 64 deep, or has more
    than 64 MiB without a complete element.
    """
    found = _FIRST.match(file.read(CHUNK))
    first = b"" if found is None else found[1]
    file.seek(0)
    if first == b"{" and _has_json_lines(file):
        yield from _lines(file)
    elif first == b"[":
        for at, value in enumerate(_values(file, name, "item")):
            yield f"[{at}]", value
    elif first == b"{":
        yield from _elements(file, name, lists)
    else:
        raise RefusedFile(f"{name} is not JSON: it begins with {first.decode(errors='replace')!r}")


def depth_exceeds(value: Any, most: int = MAX_DEPTH) -> bool:
    """Return whether lists and objects are nested more than `most` deep."""
    level = [value]
    for _ in range(most):
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


def _elements(file: IO[bytes], name: str, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the elements of the lists of an object, or the object itself if it has none."""
    is_empty = True
    for key in lists:
        for at, value in enumerate(_values(file, name, f"{key}.item")):
            is_empty = False
            yield f"{key}[{at}]", value
    if not is_empty:
        return
    for value in _values(file, name, ""):
        if not any(isinstance(value.get(key), list) for key in lists):
            yield "line 1", value


def _values(file: IO[bytes], name: str, place: str) -> Iterator[Any]:
    """Yield the values at a place, which is a path of ijson. Raises RefusedFile."""
    file.seek(0)
    guard = JsonGuard(file, name)
    try:
        for value in ijson.items(guard, place, use_float=True):
            guard.end_item()
            yield guard.unmask(value) if guard.has_masks else value
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise RefusedFile(
            f"{name} is not valid JSON: {_cause(error)}; get the file again"
        ) from error


def _cause(error: Exception) -> str:
    """Return the message of a parser without the excerpt that it adds."""
    given = error.args[0] if isinstance(error, ijson.JSONError) and error.args else str(error)
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    return text.split("\n")[0].split("   ")[0].strip()


def _has_json_lines(file: IO[bytes]) -> bool:
    """Return whether the first line is a whole object and another line follows."""
    try:
        is_whole = isinstance(json.loads(file.readline(MAX_FIRST_LINE)), dict)
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
    except ValueError:
        # Python reads at most 4,300 digits.
        return Fault(position, "the line has a number with too many digits")
    return Fault(position, _TOO_DEEP) if depth_exceeds(value) else value
