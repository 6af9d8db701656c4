"""Stream the elements of a JSON document of any size, with one element in memory at a time.

The parser (yajl) stops at NaN and at numbers beyond 64 bits, replaces a lone surrogate by `?`, and
has no limit of depth. The guard enforces the limits and masks such values as strings, so that
one item does not make the rest of the file unreadable.
"""

import codecs
import json
import re
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import ijson
import numpy as np

from memrelay.memory.transfer.importers.source import Fault, RefusedFile

MAX_DEPTH = 64
# Bytes of one item, and of one token outside of texts.
MAX_ITEM, MAX_TOKEN = 64 << 20, 1 << 16
CHUNK = 1 << 16
BOM = b"\xef\xbb\xbf"
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Set in `[` and `{`, not in `]` and `}`.
OPENS = 0x02
HIGH = rb"u[dD][89abAB][0-9a-fA-F]{2}"
PAIR = re.compile(rb"\\" + HIGH + rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# An escaped backslash, a pair, or in group 1 a lone surrogate.
ESCAPE = re.compile(
    rb"\\(?:\\|" + HIGH + rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2}))"
)
# Outside of texts: a value that the parser does not read. First a fast search, in which `0` stands
# for each digit, `e` for an exponent and `N` for NaN and Infinity.
CLASSES = bytes.maketrans(b"123456789EI", b"000000000eN")
SUSPECTS = (b"N", b"0" * 19, b"e000", b"e+000")
LONG_NUMBER = re.compile(rb"-?\d{19,}|-?\d+(?:\.\d+)?[eE]\+?\d{3,}|-?Infinity|NaN")
# A text, or in group 1 a number.
TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)|(-?\d[\d.eE+-]*|-?Infinity|NaN)', re.DOTALL
)
WORD = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-"


class JsonGuard:
    """A readable stream of the masked bytes of a JSON document."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        # Random, so that no text of the file looks like a mask.
        self._mask = secrets.token_hex(12)
        self._masked = re.compile(self._mask + r"s([0-9a-fA-F]{4});")
        self._rest = b""
        self._in_text = self._is_inside_text = False
        self._depth = 0
        self._read = 0
        self._item_began = 0
        self.has_masks = False

    def read(self, size: int = CHUNK) -> bytes:
        """Return some more bytes, b"" at the end. Raises RefusedFile."""
        blocks: list[bytes] = []
        while size:
            chunk = self._stream.read(CHUNK)
            if not self._read and chunk.startswith(BOM):
                chunk = chunk[len(BOM) :]
            self._read += len(chunk)
            if self._read - self._item_began > MAX_ITEM:
                raise RefusedFile(
                    f"{self._name} has more than {MAX_ITEM >> 20} MiB without a complete item; "
                    "check whether it is the right file"
                )
            blocks.append(self._next(self._rest + chunk, not chunk))
            # The parser scans a text again for each block that it gets of it.
            if not chunk or (blocks[-1] and not self._is_inside_text):
                break
        return b"".join(blocks)

    def end_item(self) -> None:
        """Note that an item is complete. The next one may have as many bytes again."""
        self._item_began = self._read

    def unmask(self, value: Any) -> Any:
        """Return a parsed value with the original values in place of masks."""
        match value:
            case str() if self._mask in value:
                number = value.removeprefix(f"{self._mask}n")
                if number != value:
                    return _to_number(number.removesuffix(";"))
                return self._masked.sub(lambda match: chr(int(match[1], 16)), value)
            case dict():
                return {self.unmask(key): self.unmask(held) for key, held in value.items()}
            case list():
                return [self.unmask(held) for held in value]
        return value

    def _next(self, block: bytes, is_last: bool) -> bytes:
        end = len(block) if is_last else _last_escape(block)
        # Only the texts that begin or end in the block matter: escapes are complete.
        parts = block[:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        ends_in_text = self._in_text ^ (len(parts) % 2 == 0)
        if not (is_last or ends_in_text):
            # A number or a word may continue in the next block.
            end = len(block[:end].rstrip(WORD))
            if len(block) - end >= MAX_TOKEN:
                raise RefusedFile(
                    f"{self._name} has a number of more than {MAX_TOKEN:,} characters"
                )
        bare = b" ".join(parts[int(self._in_text) :: 2])
        self._check_depth(bare)
        taken, self._rest = block[:end], block[end:]
        classes = bare.translate(CLASSES)
        if any(suspect in classes for suspect in SUSPECTS):
            taken = self._mask_numbers(taken)
        if SURROGATE.search(taken):
            taken = self._mask_surrogates(taken)
        self._is_inside_text = self._in_text and len(parts) == 1
        self._in_text = ends_in_text
        return taken

    def _check_depth(self, bare: bytes) -> None:
        brackets = np.frombuffer(bare.translate(None, NOT_BRACKETS), np.uint8)
        if not len(brackets):
            return
        depths = self._depth + np.cumsum(np.where(brackets & OPENS, 1, -1))
        if depths.max() > MAX_DEPTH:
            raise RefusedFile(
                f"{self._name} is nested more than {MAX_DEPTH} deep before byte {self._read}; "
                "remove the nested part"
            )
        self._depth = int(depths[-1])

    def _mask_numbers(self, block: bytes) -> bytes:
        def replace(match: re.Match[bytes]) -> bytes:
            if match[1] is None or not LONG_NUMBER.fullmatch(match[1]):
                return match[0]
            self.has_masks = True
            return b'"%sn%s;"' % (self._mask.encode(), match[1])

        opening = b'"' if self._in_text else b""
        return TOKEN.sub(replace, opening + block)[len(opening) :]

    def _mask_surrogates(self, block: bytes) -> bytes:
        if not SURROGATE.search(PAIR.sub(b"", block.replace(b"\\\\", b"\0"))):
            return block

        def replace(match: re.Match[bytes]) -> bytes:
            if match[1] is None:
                return match[0]
            self.has_masks = True
            return b"%ss%s;" % (self._mask.encode(), match[1])

        return ESCAPE.sub(replace, block)


def _last_escape(block: bytes) -> int:
    """Return the end of a block without an escape that may continue in the next block."""
    end = len(block)
    # An escape has at most 12 bytes, a pair of surrogates.
    for width in (6, 12):
        at = block.rfind(b"\\", max(len(block) - width, 0), end)
        if at < 0:
            return end
        run = at + 1 - len(block[: at + 1].rstrip(b"\\"))
        if run % 2 == 0:
            return end
        tail = block[at : at + 6]
        is_whole = len(tail) == 6 if tail[1:2] == b"u" else len(tail) > 1
        if is_whole and not re.match(rb"\\" + HIGH, tail):
            return end
        end = at
    return end


def _to_number(text: str) -> float | int:
    try:
        number: float | int = json.loads(text)
    except ValueError:
        # Python reads at most 4,300 digits.
        return float("inf")
    return number


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
    match = _FIRST.match(file.read(CHUNK))
    first = b"" if match is None else match[1]
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


def _values(file: IO[bytes], name: str, path: str) -> Iterator[Any]:
    """Yield the values at a path of ijson. Raises RefusedFile."""
    file.seek(0)
    guard = JsonGuard(file, name)
    try:
        for value in ijson.items(guard, path, use_float=True):
            guard.end_item()
            yield guard.unmask(value) if guard.has_masks else value
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise RefusedFile(
            f"{name} is not valid JSON: {_cause(error)}; get the file again"
        ) from error


def _cause(error: Exception) -> str:
    """Return the message of a parser without the excerpt that it adds."""
    message = error.args[0] if isinstance(error, ijson.JSONError) and error.args else str(error)
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
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


# A larger document is streamed, bytes. Then its fields outside of lists are not known.
MAX_WHOLE = 64 << 20
# Bytes that decide the source of a file.
BEGINNING = 1 << 16


def read_documents(path: Path, *lists: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each line of JSON lines, each element of a list, or a document.

    A document is yielded whole, at the position `line 1`. A large one is yielded as the elements of
    its `lists`.

    Raises RefusedFile and OSError.
    """
    is_large = path.stat().st_size > MAX_WHOLE
    yield from read_items(path, *(lists if is_large else ()))


def read_list(document: dict[str, Any], key: str, position: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, element) of a list of a document, nothing if there is none."""
    elements = document.get(key)
    for index, element in enumerate(elements if isinstance(elements, list) else ()):
        yield place_in(position, f"{key}[{index}]"), element


def place_in(position: str, part: str) -> str:
    """Return the position of a part of a document. `line 1`, the whole file, is left out of it."""
    return part if position == "line 1" else f"{position}, {part}"


def list_of(position: str) -> str:
    """Return the key of the list that an element of a large document is in, else ""."""
    match = re.fullmatch(r"(\w+)\[\d+\]", position)
    return "" if match is None else match[1]


def begins_with(path: Path, *groups: str) -> bool:
    """Return whether the beginning of a JSON file has all keys of one of the groups.

    A group is a text of keys, separated by spaces.
    """
    if path.is_dir():
        return False
    with path.open("rb") as file:
        text = file.read(BEGINNING).decode(errors="replace").lstrip("\ufeff \t\r\n")
    return text.startswith(("{", "[")) and any(
        all(re.search(rf'"{key}"\s*:', text) for key in group.split()) for group in groups
    )
