"""Sources: functions that read the file of another system and yield its items.

Each module of this package with `@source` is one source. It yields items to import, and faults of
items that are left out. Times are Unix ms; None means that the source has no time. A source fills
`id` with the identity of the item in the other system. If that has none, the identifying fields
replace it.
"""

import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from msgspec import Struct

from memrelay.memory.engine.models import load
from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.errors import BadExport
from memrelay.memory.transfer import importers

EMPTY: Mapping[str, Any] = {}


class LeftOut(ValueError):
    """The item cannot be imported. The text of the error is the reason for the report."""


class Fault(Struct, frozen=True):
    """An item that is left out, or a part of one."""

    # Place in the file that a reader finds, for example `line 17` or `conversations[3].mapping`.
    position: str
    # A short sentence without a full stop: `the text is empty`.
    reason: str


class Item(Struct, frozen=True, kw_only=True):
    """Fields that all items have."""

    position: str
    id: str
    created_at: int | None = None


class Texted(Item, frozen=True, kw_only=True):
    """An item that becomes a record."""

    text: str
    updated_at: int | None = None
    expires_at: int | None = None
    # The time at which the other system deleted it: it becomes a deleted record.
    deleted_at: int | None = None
    owner: str | None = None
    source: str = ""
    tags: tuple[str, ...] = ()
    # A JSON object of at most 64 KiB.
    data: Mapping[str, Any] = EMPTY
    in_context: bool = False


class Fact(Texted, frozen=True, kw_only=True):
    """An entry of a named memory."""

    # The name of the memory, for example `mem0/ada`.
    memory: str
    thread: str | None = None


class Turn(Texted, frozen=True, kw_only=True):
    """A turn of a conversation. `source` is the role of its speaker."""

    thread: str
    seq: int


# The kind of the records that notes become.
NOTE_KIND = "note"


class Plain(Texted, frozen=True, kw_only=True):
    kind: str = "observation"
    key: str | None = None
    # The beginning of the keys of all notes of the file, if a second import may change them.
    origin: str = ""
    thread: str | None = None


class Node(Item, frozen=True, kw_only=True):
    """A node of the knowledge graph."""

    name: str
    kind: str
    observations: tuple[str, ...] = ()


class Edge(Item, frozen=True, kw_only=True):
    """An edge of the knowledge graph, between the names of two nodes."""

    from_name: str
    to_name: str
    kind: str


AnyItem = Fact | Turn | Plain | Node | Edge
SourceItem = AnyItem | Fault


class RefusedFile(BadExport):
    """The container is damaged or breaks a limit, so the whole file is refused."""


class WrongOption(BadExport):
    """The file needs an option, or an option does not fit it."""


class SourceInput(NamedTuple):
    """The input of a source.

    It is read twice, and both times it yields the same items.
    """

    # A file or folder. None if the items come from `url`.
    path: Path | None
    # The value of --as: `facts`, `records` or `turns`; "" for the items as the source has them.
    target: str = ""
    # Only ChatGPT: all branches of a conversation, not only the current one.
    all_branches: bool = False
    # Yields the decoded JSON answer of the REST API, page by page. Only for sources with `has_url`.
    pages: Callable[[], Iterator[object]] | None = None
    # Receives a note for the user, for example how to fetch what the file does not hold.
    note: Callable[[str], None] = lambda _: None
    # Only tables: the column with the texts, "" for one of the usual names.
    content: str = ""

    @property
    def file(self) -> Path:
        """Return the path of the file."""
        if self.path is None:
            raise RefusedFile("this source needs a file")
        return self.path


Reader = Callable[[SourceInput], Iterator[SourceItem]]


class Source(NamedTuple):
    """A system whose files can be imported."""

    name: str
    # Yields every item and fault in the order of the file. Raises RefusedFile and OSError.
    read: Reader
    # Returns whether a file has the structure of this source, by its beginning. `auto` asks all.
    detect: Callable[[Path], bool]
    # Whether it reads a REST API too.
    has_url: bool
    # Whether it reads `all_branches`.
    has_branches: bool
    # Whether many systems write such files: `auto` asks it after all others.
    is_general: bool


_SOURCES: dict[str, Source] = {}


def source(
    name: str,
    detect: Callable[[Path], bool],
    *,
    has_url: bool = False,
    has_branches: bool = False,
    is_general: bool = False,
) -> Callable[[Reader], Reader]:
    """Register the function that reads a source."""

    def register(read: Reader) -> Reader:
        _SOURCES[name] = Source(name, read, detect, has_url, has_branches, is_general)
        return read

    return register


def all_sources() -> dict[str, Source]:
    """Import all sources and return them by name, sorted."""
    for module in pkgutil.iter_modules(importers.__path__):
        load(f"{importers.__name__}.{module.name}")
    return dict(sorted(_SOURCES.items()))


# From this number on, Unix time is in milliseconds: 5138-11-16 in seconds, 1973-03-03 in ms.
FIRST_MS = 100_000_000_000
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
EMPTY_TEXT = "the text is empty"


def read_time(value: object) -> int | None:
    """Return Unix ms, None for an absent time (None or an empty text).

    Accepted: RFC 3339, ISO 8601 (without a zone in UTC), Unix seconds, Unix milliseconds.

    Raises LeftOut.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    unix_ms = None
    if isinstance(value, float) and not math.isfinite(value):
        raise _unknown_form(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        unix_ms = round(value if value >= FIRST_MS else value * 1000)
    elif isinstance(value, str):
        unix_ms = _read_iso(value.strip())
    if unix_ms is None:
        raise _unknown_form(value)
    if not 0 <= unix_ms <= LAST_MS:
        raise LeftOut(f"the date {_shorten(value)} is not between the years 1970 and 9999")
    return unix_ms


def try_time(fields: object, key: str) -> int | None:
    """Return the time in a field, Unix ms, None if it is absent or cannot be read."""
    try:
        return read_time(fields.get(key)) if isinstance(fields, dict) else None
    except LeftOut:
        return None


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
DAY_MS = 86_400_000


def read_expiry(value: object) -> int | None:
    """Return the end of a time, Unix ms: of a day without a time, its last millisecond in UTC.

    Raises LeftOut.
    """
    unix_ms = read_time(value)
    if unix_ms is not None and isinstance(value, str) and _DAY.fullmatch(value.strip()):
        return unix_ms + DAY_MS - 1
    return unix_ms


def _unknown_form(value: object) -> LeftOut:
    return LeftOut(f"the date {_shorten(value)} has an unknown form")


def _read_iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _shorten(value: object) -> str:
    if isinstance(value, str):
        text = value[:40].encode(errors="backslashreplace").decode()
        return f'"{text}"'
    return str(value)[:40]


def fields_of(value: object) -> dict[str, Any]:
    """Return an item as an object. Raises LeftOut."""
    if not isinstance(value, dict):
        raise LeftOut("it is not a JSON object")
    return value


def read_text(fields: Mapping[str, Any], key: str) -> str:
    """Return an optional text or number as a text, "" if it is absent. Raises LeftOut."""
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise LeftOut(f"`{key}` is not a text")
    return str(value)


def read_content(fields: Mapping[str, Any], key: str) -> str:
    """Return the text of an item. Raises LeftOut if it is missing or empty."""
    if fields.get(key) is None:
        raise LeftOut(f"it has no `{key}`")
    text = read_text(fields, key)
    if not text.strip():
        raise LeftOut(EMPTY_TEXT)
    return text


def read_object(fields: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an optional object, also as a text of JSON. Another value is under its key."""
    value = fields.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = fields[key]
    if isinstance(value, dict):
        return value
    return {} if value in (None, "", [], {}) else {key: value}


def read_texts(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return an optional list of texts. Raises LeftOut."""
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise LeftOut(f"`{key}` is not a list of texts")
    return tuple(value)


def read_position(fields: Mapping[str, Any], number: int) -> int:
    """Return the position of a turn in its thread: its time, Unix ms, or `number` without a time.

    Times keep the order if another export begins with a later message. Raises LeftOut.
    """
    created_at = read_time(fields.get("created_at"))
    return number if created_at is None else created_at


MAX_KEY_CHARACTERS = 256


def make_key(*parts: str) -> str:
    """Return the key of a note: its source, its file or folder, and its path or id in it."""
    key = "/".join(normalize("NFC", part) for part in parts if part)
    if len(key) <= MAX_KEY_CHARACTERS:
        return key
    digest = blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{key[: MAX_KEY_CHARACTERS - len(digest) - 1]} {digest}"


def without_empty(fields: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return those fields that have a value."""
    return {key: fields[key] for key in keys if fields.get(key) not in (None, "", [], {})}
