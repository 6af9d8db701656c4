"""Long texts, clipped for a page."""

from typing import NamedTuple

from markupsafe import escape


class Clipped(NamedTuple):
    """The beginning of a text. `hidden` is the number of characters that are left out."""

    text: str
    hidden: int


def clip_bytes(text: str, max_bytes: int) -> Clipped:
    """Return as much of a text as has that many bytes in HTML."""
    shown = text[:max_bytes]
    while (size := len(str(escape(shown)).encode())) > max_bytes:
        shown = shown[: len(shown) * max_bytes // size]
    return Clipped(shown, len(text) - len(shown))
