"""What two facts must agree in to be one: a reason why they are two, however alike they sound."""
from collections.abc import Callable

from memory.likeness.matching import Match
from memory.likeness.order import roles_differ
from memory.likeness.reading import Reading, Word


def difference(one: Reading, other: Reading, match: Match) -> str:
    """What differs, in a word or two; "" for nothing that shows."""
    return next((reason for reason, differs in _RULES if differs(one, other, match)), "")


def _numbers(one: Reading, other: Reading, match: Match) -> bool:
    """Also what is counted, and the unit."""
    return any(word.number for word in (*match.left, *match.right)) or (
        any(word.counted for word in match.left) and any(word.counted for word in match.right))


def _names(one: Reading, other: Reading, match: Match) -> bool:
    return any(word.name for word in (*match.left, *match.right))


def _negations(one: Reading, other: Reading, match: Match) -> bool:
    """A word that is turned round makes up for a negation."""
    return one.negations != other.negations if not match.turned else abs(one.negations - other.negations) != match.turned


def _opposites(one: Reading, other: Reading, match: Match) -> bool:
    return any(word.known.excludes(near.known) for word in match.left for near in match.right)


def _signals(one: Reading, other: Reading, match: Match) -> bool:
    """Also whether it is, must or may be so. A `please` goes with `should`, and says no more than an order without it."""
    differing = {said for said in one.said ^ other.said if said.startswith(("signal:", "mode:"))} - {"mode:please"}
    return bool(differing) and not (differing == {"mode:should"} and "mode:please" in one.said | other.said)


def _tenses(one: Reading, other: Reading, match: Match) -> bool:
    """One is past, and the other neither that nor perfect; or one is to come, and the other is, was or has been."""
    a, b = one.tenses, other.tenses
    if ("past" in a) != ("past" in b) and "perfect" not in (a | b):
        return True
    return ("will" in a) != ("will" in b) and bool((b if "will" in a else a) & {"past", "perfect", "now"})


def _persons(one: Reading, other: Reading, match: Match) -> bool:
    a, b = ({said for said in reading.said if said.startswith("person:")} for reading in (one, other))
    return bool(a) and bool(b) and a.isdisjoint(b)


def _says_more(one: Reading, other: Reading, match: Match) -> bool:
    """Whether the words that are left over say something on either side; those that say little count where there are several."""
    alike = one.joins == other.joins
    return _weight(match.left, alike and bool(other.tenses & _STATE)) + _weight(match.right, alike and bool(one.tenses & _STATE)) > 0


def _weight(words: tuple[Word, ...], state: bool) -> int:
    """`state`: the other fact has `is` or `has`, which a verb may stand for."""
    light = sum(word.light or (state and word.state) for word in words)
    return len(words) - light + light // 3


_STATE = {"now", "perfect"}


_RULES: tuple[tuple[str, Callable[[Reading, Reading, Match], bool]], ...] = (
    ("numbers or dates differ", _numbers), ("names differ", _names), ("one denies", _negations), ("opposites", _opposites),
    ("conditions or degrees differ", _signals), ("tenses differ", _tenses), ("persons differ", _persons),
    ("roles are swapped", roles_differ),
    ("words differ", _says_more))
