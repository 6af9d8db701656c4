"""Stream the elements of a JSON document of any size, with one element in memory at a time.

The parser (yajl) stops at NaN and at numbers beyond 64 bits, replaces a lone surrogate by `?`, and
has no limit of depth. The guard enforces the limits and masks such values as strings, so that
one item does not make the rest of the file unreadable.
"""

import codecs
import io
import json
import re
import secrets
from collections.abc import Collection, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import ijson
import numpy as np

from memrelay.memory.transfer.importers.encodings import as_utf8
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


# Bytes of a line of JSON lines, of the first one, and of what decides on the layout of a file.
MAX_LINE, MAX_FIRST_LINE, BEGINNING = 64 << 20, 4 << 20, 1 << 20
_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(.?)", re.DOTALL)
# Between the values of a line.
_SEPARATOR = re.compile(r"[ \t\r\n,]*")
_DECODER = json.JSONDecoder()
# The parser's error for a document that is cut.
END_TOO_EARLY = "premature EOF"
_TOO_DEEP = f"the JSON is nested more than {MAX_DEPTH} deep"


def read_items(path: Path, *lists: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of a file, as `iterate` does. Raises RefusedFile and OSError."""
    with path.open("rb") as file:
        yield from iterate(file, path.name, lists)


def iterate(file: IO[bytes], name: str, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each element of a JSON array, or of each value of JSON lines.

    For an object, yield the elements of its arrays under the keys `lists`, in this order. An object
    without these arrays is one value at the position `line 1`. Positions are `[0]`, `results[0]`
    and `line 1`; a line may have several values. The value of a malformed line is a Fault. Values
    are those of `json.loads`: a lone surrogate or NaN reaches the caller, which leaves out the item
    that has it.

    Raises RefusedFile: when the document is no valid JSON, is nested more than 64 deep, or has more
    than 64 MiB without a complete element.
    """
    with as_utf8(file, name) as text:
        match = _FIRST.match(text.read(CHUNK))
        first = b"" if match is None else match[1]
        if has_json_lines(text):
            for position, value in _lines(text):
                yield from _parts(position, value, lists)
        elif first == b"[":
            for at, value in enumerate(_values(text, name, "item")):
                yield f"[{at}]", value
        elif first == b"{":
            yield from _elements(text, name, lists)
        else:
            shown = first.decode(errors="replace")
            raise RefusedFile(f"{name} is not JSON: it begins with {shown!r}")


def _parts(position: str, value: Any, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a line that is a list, or an object with `lists`; else the value."""
    parts = {"": value} if isinstance(value, list) else {}
    if isinstance(value, dict):
        parts = {key: value[key] for key in lists if isinstance(value.get(key), list)}
    for key, elements in parts.items():
        for at, element in enumerate(elements):
            yield f"{position}, {key}[{at}]", element
    if not parts:
        yield position, value


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
    for number, value in enumerate(_values(file, name, ""), 1):
        if not isinstance(value, dict) or not any(
            isinstance(value.get(key), list) for key in lists
        ):
            yield "line 1" if number == 1 else f"value {number}", value


def _values(file: IO[bytes], name: str, path: str) -> Iterator[Any]:
    """Yield the values at a path of ijson, also of several documents. Raises RefusedFile."""
    file.seek(0)
    guard = JsonGuard(file, name)
    try:
        for value in ijson.items(guard, path, use_float=True, multiple_values=path != "item"):
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


def has_json_lines(file: IO[bytes]) -> bool:
    """Return whether each line has whole values. The first line may be damaged.

    The file is read from its beginning, and is there again afterwards.
    """
    file.seek(0)
    try:
        return _looks_like_lines(file)
    finally:
        file.seek(0)


def _looks_like_lines(file: IO[bytes]) -> bool:
    first = b"\n"
    while first and not first.removeprefix(BOM).strip():
        first = file.readline(MAX_FIRST_LINE)
    if not first.endswith(b"\n") and len(first) == MAX_FIRST_LINE:
        return False
    second = b"\n"
    while second and not second.strip():
        second = file.readline(CHUNK)
    values = list(islice(_parse_line(first, ""), 2))
    if values and isinstance(values[0][1], str):
        return True
    if values and isinstance(values[0][1], dict | list):
        following = values[1][1] if len(values) > 1 else None
        is_followed = isinstance(following, dict | list) or bool(second.strip())
        return is_followed or (isinstance(values[0][1], dict) and following is not None)
    if not second or _may_continue(first + second):
        return False
    lines = chain([second], iter(lambda: file.readline(CHUNK), b""))
    return any(map(_is_object, _up_to(lines, BEGINNING)))


def _up_to(lines: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield lines until they have `most` bytes."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size > most:
            return


def _may_continue(text: bytes) -> bool:
    """Return whether a text is the beginning of a JSON document."""
    try:
        for _ in ijson.basic_parse(JsonGuard(io.BytesIO(text), "")):
            pass
    except ijson.JSONError as error:
        return END_TOO_EARLY in _cause(error)
    except UnicodeDecodeError:
        return False
    except RefusedFile:
        pass  # It is too deep, which the reader of documents reports.
    return True


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    values = list(islice(_parse_line(line, ""), 2))
    return len(values) == 1 and isinstance(values[0][1], dict)


def _lines(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each value of each line. A malformed value is a fault."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        yield from _parse_line(line, f"line {number}")


def _parse_line(line: bytes, position: str) -> Iterator[tuple[str, Any]]:
    try:
        text = line.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        yield position, Fault(position, "the line is not UTF-8")
        return
    at, number = 0, 0
    while (at := _end_of_separator(text, at)) < len(text):
        number += 1
        place = position if number == 1 else f"{position}, value {number}"
        value, at = _parse_value(text, at, place)
        yield place, value


def _end_of_separator(text: str, at: int) -> int:
    match = _SEPARATOR.match(text, at)
    return at if match is None else match.end()


def _parse_value(text: str, at: int, place: str) -> tuple[Any, int]:
    """Return (value, end) of a value in a line. A fault ends the line."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        fault = f"the line is not valid JSON: {error.msg} at character {error.pos}"
        return Fault(place, fault), len(text)
    except RecursionError:
        return Fault(place, _TOO_DEEP), len(text)
    except ValueError:
        # Python reads at most 4,300 digits.
        return Fault(place, "the line has a number with too many digits"), len(text)
    return Fault(place, _TOO_DEEP) if depth_exceeds(value) else value, end


# A larger document is streamed, bytes. Then its fields outside of lists are not known.
MAX_WHOLE = 64 << 20


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
    match = re.fullmatch(r"(?:line \d+, )?([\w.]+)\[\d+\]", position)
    return "" if match is None else match[1]


def begins_with(path: Path, *groups: str) -> bool:
    """Return whether the beginning of a JSON file has all keys of one of the groups.

    A group is a text of keys, separated by spaces. All are keys of the items, or of the document:
    keys of nested objects do not count. `agents.block_ids` is a key of an element of `agents`.
    """
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return has_keys(file, *groups)


def has_keys(file: IO[bytes], *groups: str) -> bool:
    """Return what `begins_with` does, for an open file."""
    try:
        with as_utf8(file, "") as text:
            found = _keys_of(text)
    except RefusedFile:
        return False
    return any(all(key in keys for key in group.split()) for group in groups for keys in found)


def _keys_of(file: IO[bytes]) -> list[set[str]]:
    """Return the keys of the document and its items, and those of the elements of its lists."""
    beginning = file.read(BEGINNING)
    keys = (_keys_of_lines if has_json_lines(file) else _keys_of_document)(beginning)
    top = keys.pop("", set()) | keys.pop("item", set())
    lists = {key: keys[f"{key}.item"] for key in top if f"{key}.item" in keys}
    inner = {f"{key}.{name}" for key, names in lists.items() for name in names}
    return [top | inner, *lists.values()]


def _keys_of_document(beginning: bytes) -> dict[str, set[str]]:
    """Return the keys of all objects, by the path of the object in the form of ijson."""
    keys: dict[str, set[str]] = {}
    guard = JsonGuard(io.BytesIO(beginning), "")
    try:
        for prefix, event, value in ijson.parse(guard, multiple_values=True):
            if event == "map_key":
                keys.setdefault(prefix, set()).add(value)
    except (ijson.JSONError, UnicodeDecodeError, RefusedFile):
        pass  # It is cut, or the source reports what is wrong with it.
    return keys


def _keys_of_lines(beginning: bytes) -> dict[str, set[str]]:
    """Return the keys of the values of all lines, and of the elements of lists in them."""
    keys: dict[str, set[str]] = {}
    for line in beginning.split(b"\n"):
        for _, value in _parse_line(line, ""):
            _add_keys(keys, _objects_in(value if isinstance(value, list) else [value]))
    return keys


def _add_keys(keys: dict[str, set[str]], objects: list[dict[str, Any]]) -> None:
    for one in objects:
        keys.setdefault("", set()).update(one)
        for key, inner in one.items():
            keys.setdefault(f"{key}.item", set()).update(*_objects_in(inner))


def _objects_in(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
