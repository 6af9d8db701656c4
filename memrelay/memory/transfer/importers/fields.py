"""Read the fields of items of other systems."""

from collections.abc import Mapping
from typing import Any

from memrelay.memory.transfer.importers.items import LeftOut
from memrelay.memory.transfer.importers.times import read_time

EMPTY_TEXT = "the text is empty"


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
