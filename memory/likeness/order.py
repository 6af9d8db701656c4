"""Who does what to whom: the same words in another order may say the reverse."""
from itertools import combinations

from memory.likeness.matching import Match
from memory.likeness.reading import Reading, Word

MOST = 32   # pairs of words of which the order is looked at; of more, any other order counts

_OPPOSED = [set(two) for two in (
    ("from", "to"), ("from", "into"), ("from", "for"), ("from", "at"), ("for", "by"), ("to", "by"), ("for", "against"),
    ("over", "under"), ("above", "below"), ("above", "under"), ("before", "after"), ("before", "behind"), ("with", "without"),
    ("on", "under"))]

_SECOND = ("over", "than", "to")   # tea over coffee, rather tea than coffee, prefers tea to coffee

Pair = tuple[int, int]   # the places of a word in the two texts


def roles_differ(one: Reading, other: Reading, match: Match) -> bool:
    """Whether two words have changed places around a third, or what marks them: from and to, than and nothing.

    A passive (`by`) changes places without changing roles, and changes roles without changing places.
    """
    pairs = sorted(match.pairs)
    if any(_opposed(one.words[a], other.words[b]) for a, b in pairs):
        return True
    turned = one.passive != other.passive
    moved = [(a, b) for a, b in combinations(pairs, 2) if a[1] > b[1]]
    if turned:
        return not moved and any({one.words[a].marker, other.words[b].marker} == {"by", ""} for a, b in pairs)
    if moved and len(pairs) > MOST:
        return True
    return any(_markers_swapped(one, other, two) or _turned_around(one, other, two, pairs) for two in moved)


def _opposed(word: Word, other: Word) -> bool:
    """Whether it is marked for one thing here and for the reverse there; from 6 pm and at 6 pm are no reverse."""
    markers = {word.marker, other.marker}
    return markers in _OPPOSED and not (word.number and "at" in markers)


def _markers_swapped(one: Reading, other: Reading, two: tuple[Pair, Pair]) -> bool:
    """Whether each has the marker that the other had; or it is the other of them that is second to something."""
    here, there = _markers(one, other, two)
    if here[0] != here[1] and here == there[::-1]:
        return True
    second = tuple(marker in _SECOND for marker in here), tuple(marker in _SECOND for marker in there)
    return second[0] == second[1][::-1] and second[0][0] != second[0][1]


def _turned_around(one: Reading, other: Reading, two: tuple[Pair, Pair], pairs: list[Pair]) -> bool:
    """Whether both are numbers, or a third word stands between them in both texts, while nothing else tells their roles."""
    (here, there), (a, b) = _markers(one, other, two), two
    numbers = one.words[a[0]].number + one.words[b[0]].number
    if here[0] != here[1] or here != there or numbers == 1:
        return False
    return numbers == 2 or any(a[0] < near[0] < b[0] and b[1] < near[1] < a[1] for near in pairs)


def _markers(one: Reading, other: Reading, two: tuple[Pair, Pair]) -> tuple[tuple[str, str], tuple[str, str]]:
    (a, first), (b, second) = two
    return (one.words[a].marker, one.words[b].marker), (other.words[first].marker, other.words[second].marker)
