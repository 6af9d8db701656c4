"""Roles in a fact: who does what to whom. The same words in another order may state the reverse."""

from collections.abc import Sequence
from itertools import combinations, pairwise

from memrelay.memory.models.named_memories.dedup import lexicon
from memrelay.memory.models.named_memories.dedup.alignment import Alignment
from memrelay.memory.models.named_memories.dedup.lexicon import stems_of
from memrelay.memory.models.named_memories.dedup.parser import ParsedFact, Word

_ANSWERS = (("on", "off"), ("yes", "no"))

Pairs = Sequence[tuple[int, int]]  # the places of a word in the two facts

_NAMED = ("named", "called")
_WITH_RECIPIENT = stems_of(lexicon.WITH_RECIPIENT)

MAX_PAIRS = 32  # pairs whose order is examined; with more, any change of order counts

_ENDING = stems_of(("stop", "remember", "forget", "regret"))
_SYMMETRIC = stems_of(lexicon.SYMMETRIC)  # relations that hold in both directions
WISHES = stems_of(lexicon.WISHES)
_ASKED = frozenset(("mode:should", "mode:must", "mode:please", "mode:can"))
_SECOND = ("over", "than", "to")  # mark the lesser of two: tea over coffee

_YEAR = 5  # characters of a year: `in 2020` equals `2020`, `in 10 minutes` is not `10 minutes`
_DUE = {"via", "from"}  # by Friday
_ELSEWHERE = [{"from", "in"}, {"from", "by"}, {"in", "for"}, {"with", "for"}]  # except for numbers
_CHANGES = stems_of(lexicon.CHANGES)
_SPANS = [{"in", ""}, {"in", "at"}, {"in", "for"}]  # in 5 minutes
_IN_OR_ON = stems_of(lexicon.IN_OR_ON)
_UNITS = stems_of(("second", "minute", "hour", "day", "week", "month", "year"))
_BESIDE = frozenset(("for", "about", "from", "against"))
_SEVERAL = 4  # pairs from which on a symmetric relation has further details

Pair = tuple[int, int]  # the places of a word in the two facts


def roles_differ(one: ParsedFact, other: ParsedFact, alignment: Alignment) -> bool:
    """Return whether words have swapped places or prepositions, so that their roles differ.

    A passive with `by` changes places without changing roles, or roles without changing places.
    """
    pairs = sorted(alignment.pairs)
    if any(
        one.words[a].marker != other.words[b].marker and _prepositions_differ(one, other, a, b)
        for a, b in pairs
    ):
        return True
    turned = [(b, a) for a, b in pairs]
    if _statement_is_ordered(one, other, pairs) or _statement_is_ordered(other, one, turned):
        return True
    if one.is_passive and not other.is_passive:
        return _actor_differs(one, other, pairs)
    if other.is_passive and not one.is_passive:
        return _actor_differs(other, one, turned)
    if _named_actor_differs(one, other, pairs) or _named_actor_differs(other, one, turned):
        return True
    if _recipient_acts(one, other, pairs) or _recipient_acts(other, one, turned):
        return True
    return _order_differs(one, other, pairs)


def _order_differs(one: ParsedFact, other: ParsedFact, pairs: list[Pair]) -> bool:
    """Return whether a change of the order of words changes their roles."""
    moved = [(a, b) for a, b in combinations(pairs, 2) if a[1] > b[1]]
    if (
        (moved and len(pairs) > MAX_PAIRS)
        or _answers_swapped(one.content, other.content)
        or _name_parts_swapped(one, other, moved)
        or _only_subject_differs(one, other, pairs)
        or _joined_names_differ(one, other, pairs)
    ):
        return True
    if len(pairs) < _SEVERAL and any(
        {one.words[a].entry.stem, other.words[b].entry.stem} & _SYMMETRIC for a, b in pairs
    ):
        return False
    return any(
        _markers_swapped(one, other, two) or _places_swapped(one, other, two, pairs)
        for two in moved
    )


def _only_subject_differs(one: ParsedFact, other: ParsedFact, pairs: list[Pair]) -> bool:
    """Return whether `only` restricts the subject of one fact, and another word of the other.

    Example: only admins can delete, admins can only delete.
    """
    here = next((at for at, word in enumerate(one.words) if word.is_only), None)
    there = next((at for at, word in enumerate(other.words) if word.is_only), None)
    if here is None or there is None or 0 not in (here, there):
        return False
    return (here, there) not in pairs


def _joined_names_differ(one: ParsedFact, other: ParsedFact, pairs: list[Pair]) -> bool:
    """Return whether `and` joins other names, and one of them is on the other side of a verb.

    Example: Carla manages Dan and Eve, Carla and Dan manage Eve.
    """
    partner = dict(pairs)
    joined = {frozenset(map(partner.get, two)) for two in _joined_names(one)}
    near = {frozenset(two) for two in _joined_names(other)}
    if not joined or not near or joined == near or one.tenses == other.tenses == {"now"}:
        return False
    return any(
        one.words[a].is_capital != one.words[b].is_capital and a < b and c > d
        for a, c in pairs
        for b, d in pairs
    )


def _joined_names(fact: ParsedFact) -> list[Pair]:
    """Return the places of the names around each `and`."""
    return [
        (at - 1, at)
        for at, word in enumerate(fact.words)
        if at and word.is_joined and word.is_capital and fact.words[at - 1].is_capital
    ]


def _prepositions_differ(one: ParsedFact, other: ParsedFact, a: int, b: int) -> bool:
    """Return whether the prepositions of two paired words give them different roles."""
    return (
        _are_opposed(one.words[a], other.words[b])
        or _change_differs(one, other, a, b)
        or _containment_differs(one, other, a, b)
        or _recipient_differs(one, other, a, b)
        or _purpose_differs(one, other, a, b)
    )


def _purpose_differs(one: ParsedFact, other: ParsedFact, a: int, b: int) -> bool:
    """Return whether a verb is what ended in one fact, and the purpose in the other.

    Example: stopped eating, stopped to eat.
    """
    word, near = (one.words[a], other.words[b])
    if word.marker == "to":
        word, near = near, word
    return (
        (word.marker, near.marker) == ("", "to")
        and word.text.endswith("ing")
        and bool(a)
        and one.words[a - 1].entry.stem in _ENDING
    )


def _are_opposed(word: Word, other: Word) -> bool:
    """Return whether the prepositions are opposed. `from 6 pm` and `at 6 pm` are not."""
    markers = {word.marker, other.marker}
    if word.entry.stem in _UNITS:
        return markers == {"in", ""}
    if word.is_number:
        span = markers in _SPANS and word.text[1:].isdecimal() and len(word.text) < _YEAR
        return (
            span
            or (word.marker == "every") != (other.marker == "every")
            or markers == _DUE
            or (markers in lexicon.OPPOSED and "at" not in markers)
        )
    return (
        markers in lexicon.OPPOSED
        or markers in _ELSEWHERE
        or lexicon.STRONG.get(word.marker) != lexicon.STRONG.get(other.marker)
    )


def _change_differs(one: ParsedFact, other: ParsedFact, a: int, b: int) -> bool:
    """Return whether something changes by a number in one fact, and to it in the other."""
    if not (
        a
        and b
        and one.words[a].is_number
        and {one.words[a].marker, other.words[b].marker} == {"to", ""}
    ):
        return False
    return {one.words[a - 1].entry.stem, other.words[b - 1].entry.stem} <= _CHANGES


def _containment_differs(one: ParsedFact, other: ParsedFact, a: int, b: int) -> bool:
    """Return whether the word is inside a thing in one fact, and on it in the other.

    `in the team` equals `on the team`.
    """
    word, near = one.words[a], other.words[b]
    return (
        not word.is_number
        and {word.marker, near.marker} == {"in", "on"}
        and not any(
            beside.marker == marked.marker and beside.entry.stem in _IN_OR_ON
            for text, marked in ((one, word), (other, near))
            for beside in text.words
        )
    )


def _recipient_differs(one: ParsedFact, other: ParsedFact, a: int, b: int) -> bool:
    """Return whether a name is a recipient in one fact, and marked by for or about in the other.

    Example: pay Ann, pay for Ann.
    """
    word, near = one.words[a], other.words[b]
    if not (
        a
        and b
        and word.is_name
        and near.is_name
        and one.words[a - 1].entry.stem == other.words[b - 1].entry.stem
    ):
        return False
    return "" in (word.marker, near.marker) and not _BESIDE.isdisjoint((word.marker, near.marker))


def _statement_is_ordered(order: ParsedFact, other: ParsedFact, pairs: list[Pair]) -> bool:
    """Return whether one fact orders what someone does in the other.

    Example: send the user emails, the user sends emails.
    """
    if order.order < 0 or other.order >= 0 or not other.features.isdisjoint(_ASKED):
        return False
    at = dict(pairs).get(order.order)
    if at is not None and other.words[at].is_passive_participle:
        return not other.tenses.isdisjoint(("past", "perfect"))
    if at is None or other.words[at].marker not in ("", "not"):
        return False
    before = other.words[:at]
    return any(not word.marker for word in before) and not any(
        word.entry.stem in WISHES for word in before
    )


def _actor_differs(passive: ParsedFact, active: ParsedFact, pairs: Pairs) -> bool:
    """Return whether the actor after `by` in the passive fact is not that of the active fact.

    The recipient comes first in the passive fact.
    """
    partner = dict(pairs)
    subject = next((at for at, word in enumerate(passive.words) if word.marker in ("", "of")), None)
    doers = [at for at, word in enumerate(passive.words) if word.marker == "by" and at in partner]
    markers = {active.words[partner[at]].marker for at in doers}
    if subject is None or subject not in partner or not doers:
        return "" in markers and all(b < d for (_, b), (_, d) in pairwise(sorted(pairs)))
    if markers == {"of"}:  # Tom is managed by Eva, so he is not her manager
        return any(
            passive.words[a].is_passive_participle
            and active.words[b].text.endswith(lexicon.ACTOR_ENDINGS)
            for a, b in pairs
        )
    if active.words[partner[subject]].marker == "of":  # Eva is the author of the report
        return False
    return "" in markers and (subject < doers[0]) != (partner[subject] > partner[doers[0]])


def _named_actor_differs(named: ParsedFact, active: ParsedFact, pairs: Pairs) -> bool:
    """Return whether the first fact names an actor's owner, who acts in the second.

    Example: Eva's teacher, Eva teaches.
    """
    partner = dict(pairs)
    return any(
        named.words[at].text.endswith(lexicon.ACTOR_ENDINGS)
        and not active.words[near].text.endswith(lexicon.ACTOR_ENDINGS)
        and at - 1 in partner
        and named.words[at - 1].marker == "of"
        and partner[at - 1] == near - 1
        and not active.words[near - 1].marker
        and len(active.words) > near + 1
        for at, near in pairs
    )


def _recipient_acts(passive: ParsedFact, active: ParsedFact, pairs: Pairs) -> bool:
    """Return whether a recipient in the first fact is the actor in the second.

    Example: was given access, gave access.
    """
    return any(
        _is_reversed(passive, active, two, pairs)
        for two in pairs
        if passive.words[two[0]].is_passive_participle
    )


def _is_reversed(
    passive: ParsedFact, active: ParsedFact, verb: tuple[int, int], pairs: Pairs
) -> bool:
    """Return whether the recipient of this verb in the passive fact is its actor in the other."""
    done, does = passive.words[verb[0]], active.words[verb[1]]
    named = does.text == done.text or (
        does.text in _NAMED and done.text in _NAMED and active.words[verb[1] - 1].is_single
    )
    if does.follows_be or verb[1] == 0 or (active.tenses and named):  # has a dog named Rex
        return False
    back = {there: here for here, there in pairs}
    subject = back.get(verb[1] - 1)
    if subject is None or active.words[verb[1] - 1].marker:
        return False
    marker, someone = (
        passive.words[subject].marker,
        done.entry.stem == does.entry.stem and done.entry.stem in _WITH_RECIPIENT,
    )
    if marker:
        return marker == "to" and someone
    has_object = back.get(verb[1] + 1, -1) > verb[0] and _is_object(active.words[verb[1] + 1])
    return subject == verb[0] - 1 and (someone or has_object)


def _is_object(word: Word) -> bool:
    """Return whether a word after a verb is its object, and not an adverbial."""
    return not (
        word.marker or word.is_number or word.text.startswith("p:") or word.text.endswith("ly")
    )


def _answers_swapped(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two things swapped their answers: debug on and trace off, and the reverse.

    `one` and `other` are the words of the facts, in order.
    """
    return any(
        _swapped(_answered(one, *answers), _answered(other, *answers)) for answers in _ANSWERS
    )


def _swapped(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one == other[::-1] and one[0] != one[1] and "" not in one


def _answered(words: tuple[str, ...], yes: str, no: str) -> tuple[str, str]:
    """Return the content words before each answer; "" unless each answer occurs exactly once."""
    if words.count(yes) != 1 or words.count(no) != 1:
        return "", ""
    content = [word for word in words if word in (yes, no) or word not in lexicon.FUNCTION_WORDS]
    return _before(content, yes), _before(content, no)


def _before(words: list[str], answer: str) -> str:
    return words[words.index(answer) - 1] if words[0] != answer else ""


def _name_parts_swapped(one: ParsedFact, other: ParsedFact, moved: list[tuple[Pair, Pair]]) -> bool:
    """Return whether the parts of a name are swapped outside a list: Kim Lee, Lee Kim."""
    return (
        not one.conjunctions
        and not other.conjunctions
        and any(
            a[0] + 1 == b[0]
            and b[1] + 1 == a[1]
            and all(_full_name(text, at) for text, at in ((one, a[0]), (other, b[1])))
            for a, b in moved
        )
    )


def _full_name(text: ParsedFact, at: int) -> bool:
    """Return whether two names are adjacent there."""
    first, last = text.words[at], text.words[at + 1]
    return (
        (first.is_name or first.starts_sentence)
        and last.is_name
        and (first.text, last.text) in pairwise(text.content)
    )


def _markers_swapped(one: ParsedFact, other: ParsedFact, two: tuple[Pair, Pair]) -> bool:
    """Return whether two words swapped their markers, or the lesser of two is another one."""
    here, there = _markers(one, other, two)
    if here[0] != here[1] and here == there[::-1]:
        return True
    second = (
        tuple(marker in _SECOND for marker in here),
        tuple(marker in _SECOND for marker in there),
    )
    return second[0] == second[1][::-1] and second[0][0] != second[0][1]


def _places_swapped(
    one: ParsedFact, other: ParsedFact, two: tuple[Pair, Pair], pairs: list[Pair]
) -> bool:
    """Return whether two words swapped places, and only their order shows their roles.

    That holds for two numbers, and for words on both sides of a third word in both facts.
    """
    (here, there), (a, b) = _markers(one, other, two), two
    numbers = one.words[a[0]].is_number + one.words[b[0]].is_number
    if here[0] != here[1] or here != there or numbers == 1:
        return False
    is_so = one.tenses == other.tenses == {"now"}
    return numbers == 2 or any(
        a[0] < near[0] < b[0]
        and b[1] < near[1] < a[1]
        and not (is_so and _is_owner_in_both(one, other, near))
        for near in pairs
    )


def _is_owner_in_both(one: ParsedFact, other: ParsedFact, near: Pair) -> bool:
    """Return whether the word is an owner in both facts: the CEO of Acme, Acme's CEO."""
    return one.words[near[0]].marker == other.words[near[1]].marker == "of"


def _markers(
    one: ParsedFact, other: ParsedFact, two: tuple[Pair, Pair]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the markers of both words in both facts, including `not`: with Ann, not with Bob."""
    (a, first), (b, second) = two
    return (_marker(one.words[a]), _marker(one.words[b])), (
        _marker(other.words[first]),
        _marker(other.words[second]),
    )


def _marker(word: Word) -> str:
    return (
        f"not {word.marker}" if word.is_denied and word.marker not in ("", "not") else word.marker
    )
