"""The parts of a found text around the words that were looked for."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# Characters of a part, and of it before the word. Parts of a text, and values of JSON that are
# looked at.
MAX_PART, BEFORE, MAX_PARTS, MAX_VALUES = 160, 50, 3, 5_000
MAX_JSON_CHARACTERS = 1 << 20


class Excerpt(NamedTuple):
    """A part of a text. `pieces` are (text, whether it is one of the words). Of JSON, `path` names
    the value, such as `issue.title`; "" for other texts.
    """

    path: str
    pieces: list[tuple[str, bool]]


def make_excerpts(text: str, words: Sequence[str]) -> list[Excerpt]:
    """Return the parts of a text with the words, none if they are not found as they are written."""
    if not words:
        return []
    found, left = list[Excerpt](), set(words)
    pattern = _compile(words)
    for path, value in _list_values(text):
        # The next part begins after the previous one.
        match, end = pattern.search(value), 0
        while match is not None and len(found) < MAX_PARTS:
            new = {word for word in left if word.casefold() in match[0].casefold()}
            if new or not found:
                excerpt, end = _cut(path, value, match.start(), pattern)
                found.append(excerpt)
                shown = "".join(piece for piece, _ in excerpt.pieces).casefold()
                left = {word for word in left - new if word.casefold() not in shown}
            match = pattern.search(value, max(end, match.end())) if left else None
        if not left or len(found) == MAX_PARTS:
            break
    return found


def _compile(words: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def _list_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield (path, value) of the texts and numbers in JSON, else the text."""
    value = _parse(text)
    if value is None:
        yield "", text
        return
    waiting: list[tuple[str, Any]] = [("", value)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        path, one = waiting.pop()
        if isinstance(one, dict):
            pairs = [(f"{path}.{name}" if path else name, inner) for name, inner in one.items()]
            waiting += reversed(pairs[:MAX_VALUES])
        elif isinstance(one, list):
            waiting += reversed(
                [(f"{path}[{at}]", inner) for at, inner in enumerate(one[:MAX_VALUES])]
            )
        else:
            yield path, one if isinstance(one, str) else json.dumps(one)


def _parse(text: str) -> Any:
    """Return the object or array of a text, None if it is none."""
    if len(text) > MAX_JSON_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _cut(path: str, value: str, at: int, pattern: re.Pattern[str]) -> tuple[Excerpt, int]:
    """Return the part of a value around a place, and the end of the part."""
    start = max(0, at - BEFORE)
    end = min(len(value), start + MAX_PART)
    pieces, last = [("…", False)] if start else [], start
    for match in pattern.finditer(value, start, end):
        pieces += [(value[last : match.start()], False), (match[0], True)]
        last = match.end()
    pieces += [(value[last:end], False)] + ([("…", False)] if end < len(value) else [])
    return Excerpt(path, [(" ".join(text.split("\n")), hit) for text, hit in pieces if text]), end
