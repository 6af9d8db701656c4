"""What two facts must agree in to be one: a reason why they are two, however alike they sound."""

from collections.abc import Callable

from memrelay.memory.dedup import function_words as grammar
from memrelay.memory.dedup.alignment import Match
from memrelay.memory.dedup.irregular import FORMS
from memrelay.memory.dedup.lexicon import ENGLISH, stem_of, stems_of
from memrelay.memory.dedup.parser import Reading, Word
from memrelay.memory.dedup.phrases import with_s
from memrelay.memory.dedup.roles import WISHES, roles_differ

# What began and goes on: who moved to Rome in 2021 has lived there since 2021.

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
        if word.known.stem in _STATES and _is_past(word, one)
    )


def _is_past(word: Word, text: Reading) -> bool:
    return word.past or "past" in text.tenses


def _is_so(start: Word, left: tuple[Word, ...], right: tuple[Word, ...]) -> bool:
    """Whether nothing is left over but the start here, and what it starts there."""
    states = _STATES[start.known.stem]
    return all(word is start or word.known.stem in states for word in left) and all(
        word.light or word.known.stem in states for word in right
    )


def difference(one: Reading, other: Reading, match: Match) -> str:
    """What differs, in a word or two; "" for nothing that shows."""
    return next((reason for reason, differs in _RULES if differs(one, other, match)), "")


def _numbers(one: Reading, other: Reading, match: Match) -> bool:
    """Also what is counted, and the unit."""
    return (
        any(word.number for word in (*match.left, *match.right))
        or (any(word.counted for word in match.left) and any(word.counted for word in match.right))
        or (_counts_moved(one, other, match))
        or any(
            one.words[a].single != other.words[b].single and _several(one.words[a], other.words[b])
            for a, b in match.pairs
        )
    )


def _several(word: Word, other: Word) -> bool:
    """Whether there is one of it in one text, and several in the other: a cat, cats."""
    one, more = (word.text, other.text) if word.single else (other.text, word.text)
    return more in FORMS.plurals or more == with_s(one)


def _counts_moved(one: Reading, other: Reading, match: Match) -> bool:
    """Whether a number counts another word that both have: two sons and a daughter, two daughters
    and a son."""
    partner = dict(match.pairs)
    moved = [
        (a + 1, b + 1)
        for a, b in match.pairs
        if one.words[a].number and partner.get(a + 1, b + 1) != b + 1
    ]
    return any(
        _counted(one.words[a]) and b in partner.values() and _counted(other.words[b])
        for a, b in moved
    )


def _counted(word: Word) -> bool:
    """Whether there are so many of it; twice a week is of no weeks."""
    return word.counted and not word.text.startswith("p:")


def _names(one: Reading, other: Reading, match: Match) -> bool:
    return any(word.name for word in (*match.left, *match.right))


def _negations(one: Reading, other: Reading, match: Match) -> bool:
    """A word that is turned round makes up for a negation."""
    pairs = (
        [(one.words[a], other.words[b]) for a, b in match.pairs]
        if one.negations or other.negations
        else []
    )
    if any(
        word.denied != near.denied and word.known.stem in _SAYING for word, near in pairs
    ):  # who did not say that it is so
        return True
    if one.joins and other.joins:
        denied = [(word.denied, near.denied) for word, near in pairs]
        if (True, False) in denied and (False, True) in denied:  # not with Ann but with Bob
            return True
    return (
        one.negations != other.negations
        if not match.turned
        else abs(one.negations - other.negations) != match.turned
    )


def _opposites(one: Reading, other: Reading, match: Match) -> bool:
    return any(word.known.excludes(near.known) for word in match.left for near in match.right)


def _signals(one: Reading, other: Reading, match: Match) -> bool:
    """Also whether it is, must or may be so. `should` is as good as `please`, and `must` as a
    need."""
    differing = {
        said for said in one.said ^ other.said if said.startswith(("signal:", "mode:"))
    } - {"mode:please"}
    if not differing:
        return False
    both, stems = one.said & other.said, {word.known.stem for word in (*one.words, *other.words)}
    if differing in ({"mode:should"}, {"mode:must"}) and "mode:please" in one.said ^ other.said:
        return False
    if differing in ({"mode:may"}, {"mode:can"}) and (
        not both.isdisjoint(_BOUNDS) or _able(one, other, match)
    ):
        return False
    if (
        differing <= _PERMITTING and len(differing) > 1 and one.negations and other.negations
    ):  # cannot, must not, may not
        return False
    if differing == {"mode:must"}:
        return stems.isdisjoint(_NEEDS) and both.isdisjoint(_BOUNDS)
    if differing == {"signal:if"} and "clause:when" in one.said ^ other.said:
        return False
    if differing == {"signal:after"}:
        return stems.isdisjoint(_SPANS)
    return not (differing == {"signal:since"} and begun(one, other, match))


def _tenses(one: Reading, other: Reading, match: Match) -> bool:
    """One is past, and the other neither that nor perfect; or one is to come, and the other is, was
    or has been; or one does
    what the other has.
    """
    words = [(one.words[a], other.words[b]) for a, b in match.pairs]
    if _by_a_doer(words) or begun(one, other, match):
        return False
    a = one.tenses | _past(match.left, words, other)
    b = other.tenses | _past(match.right, [(word, near) for near, word in words], one)
    if ("past" in a) != ("past" in b) and "perfect" not in (a | b):
        return True
    if ("doing" in a) != ("doing" in b) and "has" in a | b:
        return True
    if ("perfect" in a) != ("perfect" in b) and any(
        (word if "perfect" in b else near).going for word, near in words
    ):
        return True
    if (
        one.negations
        and other.negations
        and ("perfect" in a) != ("perfect" in b)
        and "has" not in a | b
    ):
        return not any(
            word.done and near.done for word, near in words
        )  # who does not smoke may have smoked
    if ("will" in a) == ("will" in b) or any(word.coming and near.coming for word, near in words):
        return False
    return bool((b if "will" in a else a) & {"past", "perfect", "now"})


def _able(one: Reading, other: Reading, match: Match) -> bool:
    """Whether a word says what `can` says: is reachable, can be reached."""
    return any(
        one.words[a].text.endswith(("able", "ible"))
        != other.words[b].text.endswith(("able", "ible"))
        for a, b in match.pairs
    )


def _by_a_doer(words: list[tuple[Word, Word]]) -> bool:
    """Whether one text says who the doer is and the other what was done: is the founder, was
    founded."""
    return any(
        (a.text in _DOERS and b.text not in _DOERS) or (b.text in _DOERS and a.text not in _DOERS)
        for a, b in words
    )


def _past(left: tuple[Word, ...], pairs: list[tuple[Word, Word]], other: Reading) -> set[str]:
    """Whether a verb says so; of one that the other has in the same form that is sure only where
    the other is past, too."""
    told = any(word.past for word in left) or any(
        word.past and (near.past or word.text != near.text or "past" in other.tenses)
        for word, near in pairs
    )
    return {"past"} if told else set()


def _persons(one: Reading, other: Reading, match: Match) -> bool:
    a, b = (
        {said for said in reading.said if said.startswith("person:")} for reading in (one, other)
    )
    return bool(a) and bool(b) and a.isdisjoint(b)


def _says_more(one: Reading, other: Reading, match: Match) -> bool:
    """Whether the words left over say something. On one side may be left over what may go unsaid,
    where there is an `is`."""
    needs = _NEEDS if "mode:must" in one.said ^ other.said else frozenset()
    left, right = _heavy(match.left, needs), _heavy(match.right, needs)
    if (match.left or match.right) and begun(one, other, match):
        return False
    if (one.order >= 0) != (other.order >= 0) and _asked_for(one, other, match):
        return False
    alone = one.joins == other.joins and bool((one.tenses | other.tenses) & _STATE)
    if match.left and match.right:
        alone = alone and len(match.pairs) > 1
        kinds = {word.unsaid for word in match.left}, {word.unsaid for word in match.right}
        return not alone or not any(
            deeds <= _DEEDS and things <= _CLASSES for deeds, things in (kinds, kinds[::-1])
        )
    told = other if match.left else one
    alone_with = (
        {"noun", "verb"}
        | ({"class"} if told.tenses & _HAVING else set())
        | ({"deed"} if any(word.unsaid == "class" for word in told.words) else set())
    )
    return any(not (alone and word.unsaid in alone_with) for word in left + right)


def _asked_for(one: Reading, other: Reading, match: Match) -> bool:
    """Whether one text orders an answer to be so, and the other says that the user wants it so."""
    wishes, orders = (match.left, match.right) if other.order >= 0 else (match.right, match.left)
    stems = {word.known.stem for word in wishes}
    return (
        bool(stems & WISHES)
        and stems <= WISHES | _ASKING
        and len(orders) < 2
        and all(word.known.stem in _ANSWERING for word in orders)
        and any(one.words[a].known.stem in _ANSWERS for a, _ in match.pairs)
    )


def _heavy(words: tuple[Word, ...], needs: frozenset[str]) -> list[Word]:
    """Without those that say little, unless they are several. `needs`: what the other says with a
    `must`."""
    heavy = [word for word in words if not word.light and word.known.stem not in needs]
    return heavy if len(words) - len(heavy) < 3 else list(words)


_BOUNDS = {"signal:at-most", "signal:at-least"}  # what is bounded must be within
_PERMITTING = {"mode:must", "mode:may", "mode:can", "mode:should"}
_SPANS = stems_of(("timeout", "expire"))
_SAYING = stems_of(grammar.SAYING)
_ASKING = stems_of(("user", "customer", "client"))
_ANSWERING, _ANSWERS = stems_of(grammar.ANSWERING), stems_of(grammar.ANSWERS)
_DOERS = frozenset(
    (
        "founder",
        "cofounder",
        "author",
        "creator",
        "inventor",
        "writer",
        "designer",
        "composer",
        "architect",
    )
)
_CLASSES, _DEEDS = {"noun", "class"}, {"verb", "deed"}
_STATE, _HAVING = {"now", "perfect", "has"}, {"perfect", "has"}
_NEEDS = stems_of(("need", "require", "necessary", "mandatory", "due", "deadline", "obligatory"))


_RULES: tuple[tuple[str, Callable[[Reading, Reading, Match], bool]], ...] = (
    ("numbers or dates differ", _numbers),
    ("names differ", _names),
    ("one denies", _negations),
    ("opposites", _opposites),
    ("conditions or degrees differ", _signals),
    ("tenses differ", _tenses),
    ("persons differ", _persons),
    ("roles are swapped", roles_differ),
    ("words differ", _says_more),
)
