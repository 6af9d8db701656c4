"""What two facts must agree in to be one: a reason why they are two, however alike they sound."""
from collections.abc import Callable

from memory.likeness.lexicon import ENGLISH, stem_of
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
    """Also whether it is, must or may be so. `should` is as good as `please`, and `must` as a need."""
    differing = {said for said in one.said ^ other.said if said.startswith(("signal:", "mode:"))} - {"mode:please"}
    excused = (differing == {"mode:should"} and "mode:please" in one.said | other.said) or (
        differing == {"mode:must"} and any(word.known.stem in _NEEDS for word in (*one.words, *other.words)))
    return bool(differing) and not excused


def _tenses(one: Reading, other: Reading, match: Match) -> bool:
    """One is past, and the other neither that nor perfect; or one is to come, and the other is, was or has been."""
    words = [(one.words[a], other.words[b]) for a, b in match.pairs]
    a = one.tenses | _past(match.left, words, other)
    b = other.tenses | _past(match.right, [(word, near) for near, word in words], one)
    if ("past" in a) != ("past" in b) and "perfect" not in (a | b):
        return True
    return ("will" in a) != ("will" in b) and bool((b if "will" in a else a) & {"past", "perfect", "now"})


def _past(left: tuple[Word, ...], pairs: list[tuple[Word, Word]], other: Reading) -> set[str]:
    """Whether a verb says so; of one that the other has in the same form that is sure only where the other is past, too."""
    told = any(word.past for word in left) or any(
        word.past and (near.past or word.text != near.text or "past" in other.tenses) for word, near in pairs)
    return {"past"} if told else set()


def _persons(one: Reading, other: Reading, match: Match) -> bool:
    a, b = ({said for said in reading.said if said.startswith("person:")} for reading in (one, other))
    return bool(a) and bool(b) and a.isdisjoint(b)


def _says_more(one: Reading, other: Reading, match: Match) -> bool:
    """Whether the words left over say something. On one side may be left over what may go unsaid, where there is an `is`."""
    needs = _NEEDS if "mode:must" in one.said ^ other.said else set()
    left, right = _heavy(match.left, needs), _heavy(match.right, needs)
    if match.left and match.right:
        return True
    alone = one.joins == other.joins and bool((one.tenses | other.tenses) & _STATE)
    return any(not (alone and word.unsaid) for word in left + right)


def _heavy(words: tuple[Word, ...], needs: set[str]) -> list[Word]:
    """Without those that say little, unless they are several. `needs`: what the other says with a `must`."""
    heavy = [word for word in words if not word.light and word.known.stem not in needs]
    return heavy if len(words) - len(heavy) < 3 else list(words)


_STATE = {"now", "perfect"}
_NEEDS = {stem_of(word, ENGLISH) for word in ("need", "require", "necessary", "mandatory")}


_RULES: tuple[tuple[str, Callable[[Reading, Reading, Match], bool]], ...] = (
    ("numbers or dates differ", _numbers), ("names differ", _names), ("one denies", _negations), ("opposites", _opposites),
    ("conditions or degrees differ", _signals), ("tenses differ", _tenses), ("persons differ", _persons),
    ("roles are swapped", roles_differ),
    ("words differ", _says_more))
