"""An item: an entry with a key in a shared store, and how its value is stored.

A visible text is the content of its record. Other visible JSON is content as JSON text. The value
of an internal or encrypted entry is in `data`, and its content is empty, so that no index, vector
or block receives it.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import BadValue, ValueTooLarge
from memrelay.memory.records.columns import column_list
from memrelay.memory.records.data import as_text, load_json
from memrelay.memory.seal_keys import is_sealed

# Characters of a key.
MAX_KEY_CHARACTERS = 200
# Bytes of a value: a text in UTF-8, or the JSON of another value.
MAX_VISIBLE_BYTES = 256 << 10
MAX_ENCRYPTED_BYTES = 64 << 10
MAX_INTERNAL_BYTES = 44 << 10
# Nested objects and lists of a value. An answer adds levels, and orjson writes 254 of them.
MAX_DEPTH = 128
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS)]
# SQLite's JSON functions end a text at the character NUL.
Namespace = Annotated[str, Field(max_length=MAX_KEY_CHARACTERS, pattern=r"^[^\x00]*$")]


class Address(NamedTuple):
    """Where an entry is. Several owners may have an entry at the same address."""

    store: str
    namespace: str
    key: str


class ItemRow(NamedTuple):
    """The columns of an entry that its view needs."""

    store: str
    namespace: str
    key: str
    owner: str
    content: str
    data: str | None
    in_context: int
    encrypted: int
    created_at: int
    updated_at: int
    expires_at: int | None
    guid: str
    crc: int


COLUMNS = column_list(ItemRow._fields[2:], "r.")


@dataclass(frozen=True, slots=True)
class ItemView:
    """An entry of a store."""

    store: str
    """The store."""
    namespace: str
    """The namespace within the store."""
    key: str
    """The key."""
    owner: str
    """The agent that wrote the entry."""
    value: Any
    """The value: any JSON. Answers to writes omit an internal or encrypted value: null."""
    in_context: bool
    """Whether lists and searches return the entry."""
    encrypted: bool
    """Whether the client encrypted the value."""
    created_at: Moment
    updated_at: Moment
    expires_at: Moment | None
    """When the entry expires; null for never."""
    version: str
    """Changes with every edit; an edit can require it."""
    guid: str
    """The guid of the entry's record."""


def view_state(state: State, *, with_hidden: bool = False) -> ItemView:
    """Return the view of a stored entry; `with_hidden` includes an internal or encrypted value."""
    return view_row(make_row(state), with_value=with_hidden or not is_hidden(state))


def view_row(row: ItemRow, *, with_value: bool = True) -> ItemView:
    """Return the view of an entry."""
    created_at = _format_time(row.created_at)
    return ItemView(
        row.store,
        row.namespace,
        row.key,
        row.owner,
        decode(row.content, row.data, row.guid) if with_value else None,
        bool(row.in_context),
        bool(row.encrypted),
        created_at,
        created_at if row.updated_at == row.created_at else _format_time(row.updated_at),
        None if row.expires_at is None else format_time(row.expires_at),
        make_version(row),
        row.guid,
    )


@lru_cache(1024)
def _format_time(unix_ms: int) -> str:
    """Cached: entries of a batch have one time."""
    return format_time(unix_ms)


def make_row(state: State) -> ItemRow:
    """Return the columns of an entry's record."""
    return ItemRow(
        state.scope,
        read_namespace(state.data, state.guid),
        state.key or "",
        state.owner or "",
        state.content,
        state.data,
        state.in_context,
        state.encrypted,
        state.created_at,
        state.updated_at,
        state.expires_at,
        state.guid,
        state.crc or 0,
    )


def make_version(row: ItemRow | State) -> str:
    """Return the version of an entry, as `records.view.version_of` computes it."""
    return format_version(row.updated_at, row.crc)


def format_version(updated_at: int, crc: int | None) -> str:
    """Return the version of an entry with these columns."""
    return f"{updated_at:x}-{crc or 0:x}"


def read_namespace(data: str | None, guid: str) -> str:
    """Return the namespace of the entry with that `data`. Raises RecordDamaged."""
    return "" if data is None else str(load_json(data, guid).get("namespace", ""))


def is_hidden(state: State) -> bool:
    """Return whether the value of an entry is internal or encrypted."""
    return not state.in_context or bool(state.encrypted)


def has_sealed_value(state: State) -> bool:
    """Return whether an interface sealed the value of an entry."""
    return is_hidden(state) and is_sealed(decode_state(state))


def decode_state(state: State) -> Any:
    """Return the value of an entry. Raises RecordDamaged."""
    return decode(state.content, state.data, state.guid)


def decode(content: str, data: str | None, guid: str) -> Any:
    """Return the value of the entry with that content and `data`. Raises RecordDamaged."""
    if data is None:
        return content
    stored = load_json(data, guid)
    if "value" in stored:
        return stored["value"]
    return load_json(content, guid) if stored.get("json") else content


def encode(
    value: Any, namespace: str, *, in_context: bool, encrypted: bool
) -> tuple[str, str | None]:
    """Return the content and the `data` of an entry with that value.

    Raises BadValue: when JSON cannot express the value, or it is nested too deeply.
    Raises ValueTooLarge: when the value exceeds the limit of its kind.
    """
    text = value if isinstance(value, str) else _to_json(value)
    data = {"namespace": namespace} if namespace else {}
    if in_context and not encrypted:
        _check_size(text, MAX_VISIBLE_BYTES, "a visible value")
        return text, as_text(data if isinstance(value, str) else data | {"json": True})
    # The limit of an internal value applies before the sealing.
    if encrypted or is_sealed(value):
        limit, kind = MAX_ENCRYPTED_BYTES, "an encrypted value"
    else:
        limit, kind = MAX_INTERNAL_BYTES, "an internal value"
    _check_size(text, limit, kind)
    return "", as_text(data | {"value": value})


def _check_size(text: str, limit: int, kind: str) -> None:
    """Raise ValueTooLarge if a text has more bytes than the limit."""
    if len(text) > limit // 4 and (size := len(text.encode())) > limit:
        raise ValueTooLarge(
            f"the value has {size} bytes, and {kind} has at most {limit}; store less, or split it "
            "over several keys"
        )


def _to_json(value: Any) -> str:
    """Return the JSON text of a value. Raises BadValue."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        _check_depth(value)
        raise BadValue(f"`value` is not valid JSON: {error}; store it as text instead") from error
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if "null" in text and not _is_finite(value):
        raise BadValue("`value` has NaN or an infinity, which JSON lacks; use null or a text")
    return text


def _check_depth(value: Any) -> None:
    """Raise BadValue if objects and lists are nested too deeply."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return
        members = (one.values() if isinstance(one, dict) else one for one in level)
        level = list(chain.from_iterable(members))
    raise BadValue(
        f"`value` is nested more than {MAX_DEPTH} levels deep; store the inner part as text"
    )


def _is_finite(value: Any) -> bool:
    """Return whether all numbers within a value are finite."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list) else True
