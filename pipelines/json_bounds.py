"""How deep JSON is nested and how many keys it has: found out before, or without, much being made
of it."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

STRING = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*(:)?', re.DOTALL
)  # with the colon where it is a key


def too_many_keys(text: bytes, most: int) -> bool:
    """Whether it is JSON with more keys than that. Text that is no JSON has none.

    Each key is followed by a colon, so few colons settle it; only where there are many is it looked
    which follow a string.
    """
    return (
        text.count(b":") > most and _is_json(text) and next(islice(_keys(text), most, None), False)
    )


def opens_more(text: bytes, most: int) -> bool:
    """Whether the text opens more objects and lists than that; what does not cannot be nested
    deeper either."""
    return text.count(b"{") + text.count(b"[") > most


def is_deeper(value: Any, most: int) -> bool:
    """Whether objects and lists are nested deeper than `most`; level by level, so that nothing
    recurs."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level and depth <= most:
        depth += 1
        level = [
            inner
            for held in level
            for inner in (held.values() if type(held) is dict else held)
            if type(inner) is dict or type(inner) is list
        ]
    return depth > most


def _keys(text: bytes) -> Iterator[bool]:
    """True for each key."""
    return (True for string in STRING.finditer(text) if string.lastindex)


def _is_json(text: bytes) -> bool:
    """Checked without making anything of it. What is nested too deeply for that is left to the
    parser, which has its end."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
