"""Rules that tell two facts apart, however similar they sound."""

from collections.abc import Callable

from memrelay.memory.dedup import function_words as grammar
from memrelay.memory.dedup.alignment import Match
from memrelay.memory.dedup.irregular import FORMS
from memrelay.memory.dedup.lexicon import ENGLISH, stem_of, stems_of
from memrelay.memory.dedup.parser import Reading, Word
from memrelay.memory.dedup.phrases import with_s
from memrelay.memory.dedup.roles import WISHES, roles_differ

_BOUNDS = {"signal:at-most", "signal:at-least"}  # with a bound, `must` and `may` are equal
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
# Verbs that start a state: whoever moved to Rome in 2021 has lived there since 2021.
_STATES = {stem_of(start, ENGLISH): stems_of(states) for start, states in grammar.STARTS.items()}


def difference(one: Reading, other: Reading, match: Match) -> str:
    """Return the first difference of two facts in a word or two; "" if no rule finds one."""
    return next((reason for reason, differs in _RULES if differs(one, other, match)), "")


def _numbers(one: Reading, other: Reading, match: Match) -> bool:
    """Compare numbers, counted things and units."""
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
    """Return whether the word is singular in one fact and plural in the other: a cat, cats."""
    one, more = (word.text, other.text) if word.single else (other.text, word.text)
    return more in FORMS.plurals or more == with_s(one)


def _counts_moved(one: Reading, other: Reading, match: Match) -> bool:
    """Return whether a number counts another word: two sons and a daughter, two daughters."""
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
    """Return whether a number counts the word. In twice a week, it does not count weeks."""
    return word.counted and not word.text.startswith("p:")


def _names(one: Reading, other: Reading, match: Match) -> bool:
    return any(word.name for word in (*match.left, *match.right))


def _negations(one: Reading, other: Reading, match: Match) -> bool:
    """Compare negations. A word paired with its negation (safe, unsafe) makes up for one."""
    pairs = (
        [(one.words[a], other.words[b]) for a, b in match.pairs]
        if one.negations or other.negations
        else []
    )
    # it matters who did not say it, or what is not so
    if any(word.denied != near.denied and word.known.stem in _SAYING for word, near in pairs):
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
    """Compare conditions, degrees and modes. `should` equals `please`, `must` equals a need."""
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
    # cannot, must not and may not are equal
    if differing <= _PERMITTING and len(differing) > 1 and one.negations and other.negations:
        return False
    if differing == {"mode:must"}:
        return stems.isdisjoint(_NEEDS) and both.isdisjoint(_BOUNDS)
    if differing == {"signal:if"} and "clause:when" in one.said ^ other.said:
        return False
    if differing == {"signal:after"}:
        return stems.isdisjoint(_SPANS)
    return not (differing == {"signal:since"} and begun(one, other, match))


def _able(one: Reading, other: Reading, match: Match) -> bool:
    """Return whether one text expresses `can` by a suffix: is reachable, can be reached."""
    return any(
        one.words[a].text.endswith(("able", "ible"))
        != other.words[b].text.endswith(("able", "ible"))
        for a, b in match.pairs
    )


def _tenses(one: Reading, other: Reading, match: Match) -> bool:
    """Compare tenses. Facts differ in these cases:

    - One is past, and the other is neither past nor perfect.
    - One is future, and the other is present, past or perfect.
    - One is continuous, and the other has a `has` or a perfect.
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
        # `does not smoke` does not exclude `has smoked`
        return not any(word.done and near.done for word, near in words)
    if ("will" in a) == ("will" in b) or any(word.coming and near.coming for word, near in words):
        return False
    return bool((b if "will" in a else a) & {"past", "perfect", "now"})


def _by_a_doer(words: list[tuple[Word, Word]]) -> bool:
    """Return whether one text names the actor and the other the deed: is the founder, founded."""
    return any(
        (a.text in _DOERS and b.text not in _DOERS) or (b.text in _DOERS and a.text not in _DOERS)
        for a, b in words
    )


def _past(left: tuple[Word, ...], pairs: list[tuple[Word, Word]], other: Reading) -> set[str]:
    """Return {"past"} if a verb shows it.

    A verb with the same form in both facts shows it only if the other fact is past too.
    """
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
    """Compare unmatched words. Omissible words on one side do not count next to an `is`."""
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
    """Return whether one text orders an answer, and the other states that the user wants it."""
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
    """Return the words with meaning, or all words if three or more have little meaning.

    `needs` are words that the other fact expresses by `must`.
    """
    heavy = [word for word in words if not word.light and word.known.stem not in needs]
    return heavy if len(words) - len(heavy) < 3 else list(words)


def begun(one: Reading, other: Reading, match: Match) -> bool:
    """Return whether one text states the start of a state, and the other that it holds since."""
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
    """Return whether only the start and verbs of its state are unmatched."""
    states = _STATES[start.known.stem]
    return all(word is start or word.known.stem in states for word in left) and all(
        word.light or word.known.stem in states for word in right
    )


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
