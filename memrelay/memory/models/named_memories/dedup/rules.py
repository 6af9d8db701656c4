"""Rules that distinguish two facts, however similar they sound."""

from collections.abc import Callable

from memrelay.memory.models.named_memories.dedup import lexicon
from memrelay.memory.models.named_memories.dedup.alignment import Alignment
from memrelay.memory.models.named_memories.dedup.lexicon import ENGLISH, stem_of, stems_of
from memrelay.memory.models.named_memories.dedup.parser import ParsedFact, Word
from memrelay.memory.models.named_memories.dedup.phrases import with_s
from memrelay.memory.models.named_memories.dedup.roles import WISHES, roles_differ
from memrelay.memory.search.text.irregular import FORMS

_BOUNDS = {"signal:at-most", "signal:at-least"}  # with a bound, `must` and `may` are equal
_PERMITTING = {"mode:must", "mode:may", "mode:can", "mode:should"}
_SPANS = stems_of(("timeout", "expire"))
_NUMBER_WORDS = stems_of(lexicon.SAYING)
_ASKING = stems_of(("user", "customer", "client"))
_ANSWERING, _ANSWERS = stems_of(lexicon.ANSWERING), stems_of(lexicon.ANSWERS)
_CLASSES, _DEEDS = {"noun", "class"}, {"verb", "deed"}
_STATE, _HAVING = {"now", "perfect", "has"}, {"perfect", "has"}
_NEEDS = stems_of(("need", "require", "necessary", "mandatory", "due", "deadline", "obligatory"))
# Verbs that start a state: moved to Rome in 2021, has lived there since 2021.
STATES = {stem_of(start, ENGLISH): stems_of(states) for start, states in lexicon.STARTS.items()}


def difference(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> str:
    """Return the first difference of two facts in a word or two; "" if no rule finds one."""
    return next((reason for reason, differs in _RULES if differs(one, other, alignment)), "")


def _numbers(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Compare numbers, counted things and units."""
    return (
        any(word.is_number for word in (*alignment.left, *alignment.right))
        or (
            any(word.is_counted for word in alignment.left)
            and any(word.is_counted for word in alignment.right)
        )
        or (_counts_moved(one, other, alignment))
        or any(
            one.words[a].is_single != other.words[b].is_single
            and _differ_in_number(one.words[a], other.words[b])
            for a, b in alignment.pairs
        )
    )


def _differ_in_number(word: Word, other: Word) -> bool:
    """Return whether the word is singular in one fact and plural in the other: a cat, cats."""
    one, more = (word.text, other.text) if word.is_single else (other.text, word.text)
    return more in FORMS.plurals or more == with_s(one)


def _counts_moved(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Return whether a number counts another word: two sons and a daughter, two daughters."""
    partner = dict(alignment.pairs)
    moved = [
        (a + 1, b + 1)
        for a, b in alignment.pairs
        if one.words[a].is_number and partner.get(a + 1, b + 1) != b + 1
    ]
    return any(
        _counted(one.words[a]) and b in partner.values() and _counted(other.words[b])
        for a, b in moved
    )


def _counted(word: Word) -> bool:
    """Return whether a number counts the word. In twice a week, it does not count weeks."""
    return word.is_counted and not word.text.startswith("p:")


def _names(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    return any(word.is_name for word in (*alignment.left, *alignment.right))


def _negations(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Compare negations. A word paired with its negation (safe, unsafe) makes up for one."""
    pairs = (
        [(one.words[a], other.words[b]) for a, b in alignment.pairs]
        if one.negations or other.negations
        else []
    )
    # the negation of a verb differs from that of its content
    if any(
        word.is_denied != near.is_denied and word.entry.stem in _NUMBER_WORDS
        for word, near in pairs
    ):
        return True
    if one.conjunctions and other.conjunctions:
        denied = [(word.is_denied, near.is_denied) for word, near in pairs]
        if (True, False) in denied and (False, True) in denied:  # not with Ann but with Bob
            return True
    return (
        one.negations != other.negations
        if not alignment.negated_pairs
        else abs(one.negations - other.negations) != alignment.negated_pairs
    )


def _opposites(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    return any(
        word.entry.excludes(near.entry) for word in alignment.left for near in alignment.right
    )


def _signals(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Compare conditions, degrees and modes. `should` equals `please`, `must` equals a need."""
    differing = {
        feature
        for feature in one.features ^ other.features
        if feature.startswith(("signal:", "mode:"))
    } - {"mode:please"}
    if not differing:
        return False
    both, stems = (
        one.features & other.features,
        {word.entry.stem for word in (*one.words, *other.words)},
    )
    if (
        differing in ({"mode:should"}, {"mode:must"})
        and "mode:please" in one.features ^ other.features
    ):
        return False
    if differing in ({"mode:may"}, {"mode:can"}) and (
        not both.isdisjoint(_BOUNDS) or _express_ability(one, other, alignment)
    ):
        return False
    # cannot, must not and may not are equal
    if differing <= _PERMITTING and len(differing) > 1 and one.negations and other.negations:
        return False
    if differing == {"mode:must"}:
        return stems.isdisjoint(_NEEDS) and both.isdisjoint(_BOUNDS)
    if differing == {"signal:if"} and "clause:when" in one.features ^ other.features:
        return False
    if differing == {"signal:after"}:
        return stems.isdisjoint(_SPANS)
    return not (differing == {"signal:since"} and _is_start_of_state(one, other, alignment))


def _express_ability(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Return whether one text expresses `can` by a suffix: is reachable, can be reached."""
    return any(
        one.words[a].text.endswith(("able", "ible"))
        != other.words[b].text.endswith(("able", "ible"))
        for a, b in alignment.pairs
    )


def _tenses(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Compare tenses. Facts differ in these cases:

    - One is past. The other is neither past nor perfect.
    - One is future. The other is present, past or perfect.
    - One is continuous. The other has a `has` or a perfect.
    """
    words = [(one.words[a], other.words[b]) for a, b in alignment.pairs]
    if _name_actor(words) or _is_start_of_state(one, other, alignment):
        return False
    a = one.tenses | _past(alignment.left, words, other)
    b = other.tenses | _past(alignment.right, [(word, near) for near, word in words], one)
    if ("past" in a) != ("past" in b) and "perfect" not in (a | b):
        return True
    if ("doing" in a) != ("doing" in b) and "has" in a | b:
        return True
    if ("perfect" in a) != ("perfect" in b) and any(
        (word if "perfect" in b else near).is_continuous for word, near in words
    ):
        return True
    if (
        one.negations
        and other.negations
        and ("perfect" in a) != ("perfect" in b)
        and "has" not in a | b
    ):
        # `does not smoke` does not exclude `has smoked`
        return not any(
            word.is_passive_participle and near.is_passive_participle for word, near in words
        )
    if ("will" in a) == ("will" in b) or any(
        word.is_future and near.is_future for word, near in words
    ):
        return False
    return bool((b if "will" in a else a) & {"past", "perfect", "now"})


def _name_actor(words: list[tuple[Word, Word]]) -> bool:
    """Return whether one text names the actor and the other the deed: is the founder, founded."""
    return any(
        (a.text in lexicon.ACTORS and b.text not in lexicon.ACTORS)
        or (b.text in lexicon.ACTORS and a.text not in lexicon.ACTORS)
        for a, b in words
    )


def _past(left: tuple[Word, ...], pairs: list[tuple[Word, Word]], other: ParsedFact) -> set[str]:
    """Return {"past"} if a verb shows it.

    A verb with the same form in both facts shows it only if the other fact is past too.
    """
    shown = any(word.is_past for word in left) or any(
        word.is_past and (near.is_past or word.text != near.text or "past" in other.tenses)
        for word, near in pairs
    )
    return {"past"} if shown else set()


def _persons(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    a, b = (
        {feature for feature in fact.features if feature.startswith("person:")}
        for fact in (one, other)
    )
    return bool(a) and bool(b) and a.isdisjoint(b)


def _words_differ(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Compare unmatched words. Omissible words on one side do not count next to an `is`."""
    needs = _NEEDS if "mode:must" in one.features ^ other.features else frozenset()
    left, right = _significant(alignment.left, needs), _significant(alignment.right, needs)
    if (alignment.left or alignment.right) and _is_start_of_state(one, other, alignment):
        return False
    if (one.order >= 0) != (other.order >= 0) and _is_same_wish(one, other, alignment):
        return False
    alone = one.conjunctions == other.conjunctions and bool((one.tenses | other.tenses) & _STATE)
    if alignment.left and alignment.right:
        alone = alone and len(alignment.pairs) > 1
        kinds = (
            {word.omissible for word in alignment.left},
            {word.omissible for word in alignment.right},
        )
        return not alone or not any(
            deeds <= _DEEDS and things <= _CLASSES for deeds, things in (kinds, kinds[::-1])
        )
    shorter = other if alignment.left else one
    alone_with = (
        {"noun", "verb"}
        | ({"class"} if shorter.tenses & _HAVING else set())
        | ({"deed"} if any(word.omissible == "class" for word in shorter.words) else set())
    )
    return any(not (alone and word.omissible in alone_with) for word in left + right)


def _is_same_wish(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Return whether one text orders an answer, and the other states that the user wants it."""
    wishes, orders = (
        (alignment.left, alignment.right) if other.order >= 0 else (alignment.right, alignment.left)
    )
    stems = {word.entry.stem for word in wishes}
    return (
        bool(stems & WISHES)
        and stems <= WISHES | _ASKING
        and len(orders) < 2
        and all(word.entry.stem in _ANSWERING for word in orders)
        and any(one.words[a].entry.stem in _ANSWERS for a, _ in alignment.pairs)
    )


def _significant(words: tuple[Word, ...], needs: frozenset[str]) -> list[Word]:
    """Return the words with meaning, or all words if three or more have little meaning.

    `needs` are words that the other fact expresses by `must`.
    """
    heavy = [word for word in words if not word.is_light and word.entry.stem not in needs]
    return heavy if len(words) - len(heavy) < 3 else list(words)


def _is_start_of_state(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Return whether one text states the start of a state, and the other that it holds since."""
    if ("signal:since" in one.features) == ("signal:since" in other.features):
        return False
    left, right = alignment.left, alignment.right
    if "signal:since" in one.features:
        one, other, left, right = other, one, right, left
    if (
        "perfect" not in other.tenses
        or "perfect" in one.tenses
        or not any(word.is_number for word in one.words)
    ):
        return False
    return any(
        _only_state_differs(word, left, right)
        for word in one.words
        if word.entry.stem in STATES and _is_past(word, one)
    )


def _is_past(word: Word, text: ParsedFact) -> bool:
    return word.is_past or "past" in text.tenses


def _only_state_differs(start: Word, left: tuple[Word, ...], right: tuple[Word, ...]) -> bool:
    """Return whether only the start and verbs of its state are unmatched."""
    states = STATES[start.entry.stem]
    return all(word is start or word.entry.stem in states for word in left) and all(
        word.is_light or word.entry.stem in states for word in right
    )


NUMBERS_DIFFER = "numbers or dates differ"
NEGATED = "one denies"
OPPOSITES = "opposites"
PERSONS_DIFFER = "persons differ"
ROLES_SWAPPED = "roles are swapped"
WORDS_DIFFER = "words differ"
_RULES: tuple[tuple[str, Callable[[ParsedFact, ParsedFact, Alignment], bool]], ...] = (
    (NUMBERS_DIFFER, _numbers),
    ("names differ", _names),
    (NEGATED, _negations),
    (OPPOSITES, _opposites),
    ("conditions or degrees differ", _signals),
    ("tenses differ", _tenses),
    (PERSONS_DIFFER, _persons),
    (ROLES_SWAPPED, roles_differ),
    (WORDS_DIFFER, _words_differ),
)
