"""Split the text of a document into chunks, each short enough for one vector."""

import re
from collections.abc import Iterator

MAX_CHARACTERS = 1200
# A cut at a paragraph or sentence leaves a chunk of at least this length.
MIN_CHARACTERS = 400
# Where a chunk may end, the best first.
_ENDS = (
    re.compile(r"\n[ \t\r]*\n\s*"),
    re.compile(r"[.!?\u2026]['\")\]]*\s+|[\u3002\uff01\uff1f]\s*"),
    re.compile(r"\n"),
    re.compile(r"\s+"),
)


def split_text(text: str) -> Iterator[str]:
    """Yield the chunks of a text. Joined, they are the text.

    A chunk has at most `MAX_CHARACTERS`. It ends at a paragraph, or else at a sentence, a line or a
    word.
    """
    start = 0
    while len(text) - start > MAX_CHARACTERS:
        end = _find_end(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _find_end(text: str, start: int) -> int:
    """Return where the chunk that begins at `start` ends."""
    last = start + MAX_CHARACTERS
    for pattern in _ENDS:
        ends = [found.end() for found in pattern.finditer(text, start + MIN_CHARACTERS, last)]
        if ends:
            return ends[-1]
    return last
