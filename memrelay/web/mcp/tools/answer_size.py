"""Keep answers of tools within the size that a model can read."""

from collections.abc import Callable
from typing import Any

import orjson

from memrelay.web.mcp.tool import JsonObject

MAX_TOKENS, BYTES_PER_TOKEN = 25_000, 3
MAX_BYTES = MAX_TOKENS * BYTES_PER_TOKEN
# For the fields around a list or a text.
MARGIN = 512
# A record whose other fields fill the answer still shows the beginning of its text.
MIN_TEXT_BYTES = 1_000
CONTENT = "content"


def size_of(value: Any) -> int:
    """Return the size as JSON, bytes."""
    return len(orjson.dumps(value))


def without_empty(view: JsonObject) -> JsonObject:
    """Return a record without its empty fields, which would cost tokens."""
    return {name: value for name, value in view.items() if value not in (None, "", [], {})}


def fit_record(view: JsonObject, offset: int = 0, *, room: int = MAX_BYTES) -> JsonObject:
    """Return a record whose text begins at the character `offset` and ends where the room does.

    A text that is cut comes with its length in characters and with how to continue.
    """
    text = view.get(CONTENT, "")
    others = size_of(view | {CONTENT: ""}) + MARGIN
    shown = cut_text(text[offset:], max(room - others, MIN_TEXT_BYTES))
    end = offset + len(shown)
    if not offset and end == len(text):
        return view
    cut: JsonObject = {CONTENT: shown, "content_length": len(text)}
    if end < len(text):
        how = f"call memory_read with guid {view.get('guid') or view['id']} and offset {end}"
        cut |= {"next_offset": end, "to_continue": how}
    return view | cut


def cut_text(text: str, most: int) -> str:
    """Return the longest beginning of a text that has at most `most` bytes as JSON."""
    if len(text) * 6 + 2 <= most or size_of(text) <= most:
        return text
    return cut_to_fit(text[:most], lambda start: size_of(start) <= most)


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of a text that fits. Its own beginnings must fit too."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[:middle]):
            low = middle
        else:
            high = middle - 1
    return text[:low]


def fit_items(
    items: list[JsonObject],
    cut: Callable[[JsonObject, int], JsonObject],
    *,
    room: int = MAX_BYTES - MARGIN,
) -> list[JsonObject]:
    """Return the first items that fit into the room, bytes. `cut` shortens the first, if need be.

    The result has at least one of them.
    """
    kept: list[JsonObject] = []
    left = room
    for item in items:
        left -= size_of(item) + 1
        if left < 0:
            break
        kept.append(item)
    return kept or [cut(item, room) for item in items[:1]]
