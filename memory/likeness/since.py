"""What began and goes on: who moved to Rome in 2021 has lived there since 2021."""

from memory.likeness import grammar
from memory.likeness.lexicon import ENGLISH, stem_of, stems_of
from memory.likeness.matching import Match
from memory.likeness.reading import Reading, Word

_STATES = {stem_of(start, ENGLISH): stems_of(states) for start, states in grammar.STARTS.items()}


def begun(one: Reading, other: Reading, match: Match) -> bool:
    """Whether one text says since when it is so, and the other that it began then."""
    if ("signal:since" in one.said) == ("signal:since" in other.said):
        return False
    left, right = match.left, match.right
    if "signal:since" in one.said:
        one, other, left, right = other, one, right, left
    if (
        "perfect" not in other.tenses
        or "perfect" in one.tenses
        or not any(word.number for word in one.words)
    ):
        return False
    return any(
        _is_so(word, left, right)
        for word in one.words
        if word.known.stem in _STATES and _past(word, one)
    )


def _past(word: Word, text: Reading) -> bool:
    return word.past or "past" in text.tenses


def _is_so(start: Word, left: tuple[Word, ...], right: tuple[Word, ...]) -> bool:
    """Whether nothing is left over but the start here, and what it starts there."""
    states = _STATES[start.known.stem]
    return all(word is start or word.known.stem in states for word in left) and all(
        word.light or word.known.stem in states for word in right
    )
