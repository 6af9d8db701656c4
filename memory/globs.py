"""Tag globs (seed 004, "Tag Filtering"): `*` is any text, `?` one character, and everything else
itself, case and all."""

from collections.abc import Iterable, Sequence


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text fits. Takes the product of the lengths at most, whatever the pattern
    is."""
    at = place = 0
    star, resumed = -1, 0  # the last `*`, and how far of the text it has taken
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, resumed = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resumed += 1
            at, place = star + 1, resumed
        else:
            return False
    return all(sign == "*" for sign in pattern[at:])


def any_matches(patterns: Sequence[str], texts: Iterable[str]) -> bool:
    """Whether one of the texts fits one of the patterns."""
    return any(matches(pattern, text) for text in texts for pattern in patterns)
