"""Read the fields of items of other systems, and their times."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.transfer.importers.items import LeftOut

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


def without_empty(fields: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return those fields that have a value."""
    return {key: fields[key] for key in keys if fields.get(key) not in (None, "", [], {})}
