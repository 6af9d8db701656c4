"""The text of an item."""

from typing import Any

import orjson

TEXT_FIELDS = ("text", "content", "summary", "message", "value", "label", "title", "name")


def as_text(value: Any) -> str:
    """Return a text itself, and any other value as compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def text_of(source: Any) -> str:
    """Return the first text field of an object, else the value itself as text."""
    if isinstance(source, dict):
        source = next((source[name] for name in TEXT_FIELDS if name in source), source)
    return as_text(source)
