"""Tells how two facts that differ relate: they contradict each other, or are about two things."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup import lexicon
from memrelay.memory.models.named_memories.dedup.alignment import Alignment
from memrelay.memory.models.named_memories.dedup.lexicon import stems_of
from memrelay.memory.models.named_memories.dedup.numbers import WEAK
from memrelay.memory.models.named_memories.dedup.parser import ParsedFact, Word
from memrelay.memory.models.named_memories.dedup.roles import WISHES
from memrelay.memory.models.named_memories.dedup.rules import (
    NUMBERS_DIFFER,
    OPPOSITES,
    PERSONS_DIFFER,
    ROLES_SWAPPED,
    STATES,
    WORDS_DIFFER,
)
from memrelay.memory.search.text.irregular import FORMS

# Prepositions that may mark the same value: is at 3 pm, a budget of 3 dollars.
_VALUES = frozenset(("in", "at", "on", "to", "of", "as", "with", ""))
# Features that are the same as directions: before Friday, above the shelf.
_DIRECTIONS = frozenset(f"signal:{word}" for word in ("before", "after", "above", "below"))
_PREFER = stems_of(("prefer",))
_STILL = stems_of(("anymore", "longer", "now", "still", "again"))
_LOCATED = ("in", "at", "on")


class Relation(Enum):
    """How two facts that differ relate."""

    CONTRADICTS = "contradicts"  # another value of the same attribute
    APART = "apart"  # another subject or attribute
    RELATED = "related"  # more detail, or another value that may also hold


class _Gap(NamedTuple):
    """The unmatched words of a fact, without those of little meaning, and their places."""

    fact: ParsedFact
    places: tuple[int, ...]

    @property
    def words(self) -> list[Word]:
        return [self.fact.words[at] for at in self.places]

    @property
    def runs(self) -> int:
        """The number of separate parts of the fact in which words are unmatched."""
        words = self.fact.words
        return sum(
            at - 1 not in self.places or words[at].marker not in ("", words[at - 1].marker)
            for at in self.places
        )

    @property
    def has_number(self) -> bool:
        return _has_number(self.words)

    @property
    def in_subject(self) -> bool:
        return any(at < self.fact.predicate for at in self.places)


def relate(one: ParsedFact, other: ParsedFact, alignment: Alignment, reason: str) -> Relation:
    """Return how two facts relate that differ for the reason of `rules.difference`."""
    gaps = (
        _find_gap(one, alignment.left, {a for a, _ in alignment.pairs}),
        _find_gap(other, alignment.right, {b for _, b in alignment.pairs}),
    )
    if reason == PERSONS_DIFFER or _subjects_differ(*gaps):
        return Relation.APART
    if not alignment.pairs:
        return Relation.CONTRADICTS if _is_bare_value(one, other, reason) else Relation.RELATED
    if not gaps[0].places and not gaps[1].places:
        if reason == ROLES_SWAPPED and not _are_preferences(one, other):
            return Relation.APART
        return Relation.CONTRADICTS
    if not gaps[0].places or not gaps[1].places:
        is_other_number = _counts_one(*gaps) or _counts_one(*gaps[::-1])
        return Relation.CONTRADICTS if is_other_number else Relation.RELATED
    return _relate_values(*_without_start(*gaps), alignment, reason)


def _is_bare_value(one: ParsedFact, other: ParsedFact, reason: str) -> bool:
    """Return whether both facts are values that exclude each other, without a subject: is vegan,
    I am 34 years old.
    """
    if reason == OPPOSITES:
        return all(fact.words and fact.words[0].follows_be for fact in (one, other))
    is_number = [[word.startswith("#") for word in fact.content] for fact in (one, other)]
    both = zip(one.content, other.content, *is_number, strict=False)
    return (
        reason == NUMBERS_DIFFER
        and is_number[0] == is_number[1]
        and any(is_number[0])
        and not all(is_number[0])
        and all(left == right or is_left for left, right, is_left, _ in both)
    )


def is_score_lowered(one: ParsedFact, other: ParsedFact, alignment: Alignment, reason: str) -> bool:
    """Return whether the facts differ in their subject or attribute, or in a number, unit, time or
    direction.
    """
    if not reason:
        return False
    if reason != NUMBERS_DIFFER and not (one.is_english and other.is_english):
        return False
    relation, both = relate(one, other, alignment, reason), (alignment.left, alignment.right)
    if relation is Relation.APART:
        return (one.is_english and other.is_english) or all(map(_has_number, both))
    if any(
        {word.entry.stem, near.entry.stem} <= lexicon.DISTINCT and word.entry.excludes(near.entry)
        for word in alignment.left
        for near in alignment.right
    ):
        return True
    if all(map(_has_number, both)):
        return True
    directions = one.features & _DIRECTIONS, other.features & _DIRECTIONS
    if directions[0] != directions[1] and (all(directions) or not any(both)):
        return True
    return reason == NUMBERS_DIFFER and relation is Relation.CONTRADICTS


def _has_number(words: Iterable[Word]) -> bool:
    return any(word.is_number or word.is_counted for word in words)


def _counts_one(gap: _Gap, other: _Gap) -> bool:
    """Return whether one fact counts several of what is one in the other: two rooms, one room."""
    return (
        bool(gap.places)
        and all(word.is_number for word in gap.words)
        and any(word.text == WEAK or word.is_single for word in other.fact.words)
    )


def _find_gap(fact: ParsedFact, unmatched: tuple[Word, ...], paired: set[int]) -> _Gap:
    heavy = [
        word
        for word in unmatched
        if word.entry.stem not in _STILL and (not word.is_light or word.is_number or word.is_name)
    ]
    places = (at for at, word in enumerate(fact.words) if at not in paired and word in heavy)
    return _Gap(fact, tuple(places))


def _subjects_differ(one: _Gap, other: _Gap) -> bool:
    """Return whether the facts have different subjects.

    Ann and Bob are no different subjects in `Ann is the manager` and `the manager is Bob`.
    """
    if not (one.in_subject or other.in_subject):
        return False
    if all(gap.places and (not gap.in_subject or _is_role_holder(gap)) for gap in (one, other)):
        return False
    subjects = [
        [gap.fact.words[at] for at in gap.places if at < gap.fact.predicate] for gap in (one, other)
    ]
    if all(subjects):
        return True
    return any(word.entry.stem not in lexicon.GENERIC for words in subjects for word in words)


def _is_role_holder(gap: _Gap) -> bool:
    """Return whether only the subject is unmatched, and `is` links it to a role of one holder."""
    fact = gap.fact
    return fact.names_role and all(at < fact.predicate for at in gap.places)


def _are_preferences(one: ParsedFact, other: ParsedFact) -> bool:
    return all(any(word.entry.stem in _PREFER for word in fact.words) for fact in (one, other))


def _without_start(one: _Gap, other: _Gap) -> tuple[_Gap, _Gap]:
    """Return the gaps without verbs of which one starts the state of the other.

    Example: moved to, lives in. A gap that has no other word keeps its verb.
    """
    for start in one.words:
        for state in other.words:
            stems = start.entry.stem, state.entry.stem
            if stems[1] in STATES.get(stems[0], ()) or stems[0] in STATES.get(stems[1], ()):
                return _without(one, start), _without(other, state)
    return _without_settling(one), _without_settling(other)


def _without_settling(gap: _Gap) -> _Gap:
    """Return the gap without a first verb that only tells that the value changed: moved to."""
    first = gap.words[0]
    return _without(gap, first) if first.entry.stem in lexicon.SETTLING else gap


def _without(gap: _Gap, word: Word) -> _Gap:
    rest = tuple(at for at in gap.places if gap.fact.words[at] is not word)
    return gap._replace(places=rest or gap.places)


def _relate_values(one: _Gap, other: _Gap, alignment: Alignment, reason: str) -> Relation:
    """Return how facts about the same subject relate if each has unmatched words."""
    events = _is_event(one.fact), _is_event(other.fact)
    if (one.runs > 1 or other.runs > 1) and not (_are_times(one) and _are_times(other)):
        return Relation.APART if any(events) or reason != WORDS_DIFFER else Relation.RELATED
    if one.has_number != other.has_number:
        return Relation.APART
    word, near = one.words[0], other.words[0]
    if _are_verbs(one, other):
        return Relation.CONTRADICTS if reason == OPPOSITES else Relation.APART
    if word.marker == near.marker == "of" and _names_relative(one, alignment):
        return Relation.APART  # Tom's sister, Tim's sister
    if word.marker != near.marker and not {word.marker, near.marker} <= _VALUES:
        return Relation.RELATED
    if all(events):
        return Relation.APART
    if any(events):
        return Relation.RELATED
    if _may_both_hold(one, alignment) and not (reason == OPPOSITES and _is_wish(one, alignment)):
        return Relation.RELATED
    if one.has_number or reason == OPPOSITES:
        return Relation.CONTRADICTS
    return Relation.CONTRADICTS if _is_single_value(one, other, alignment) else Relation.RELATED


def _are_times(gap: _Gap) -> bool:
    """Return whether the unmatched words are a day and a time: on Monday at nine."""
    return len(gap.words) == 2 and all(
        word.is_number and word.marker in _LOCATED for word in gap.words
    )


def _are_verbs(one: _Gap, other: _Gap) -> bool:
    """Return whether the unmatched words are the verbs of the facts, or begin with them."""
    return all(
        gap.places[0] == gap.fact.predicate
        and not _ends_with_state(gap)
        and not gap.words[0].marker
        and not gap.words[0].is_capital
        and not gap.words[0].is_number
        and gap.fact.has_verb
        and "has" not in gap.fact.tenses
        for gap in (one, other)
    )


def _ends_with_state(gap: _Gap) -> bool:
    """Return whether the fact ends with the unmatched word, a state: is shipped."""
    return gap.words[-1].follows_be and gap.places[-1] == len(gap.fact.words) - 1


def _is_event(fact: ParsedFact) -> bool:
    """Return whether the fact states something past, which another event does not undo."""
    predicate = fact.words[fact.predicate :]
    if any(word.entry.stem in lexicon.SETTLING for word in predicate):
        return False
    if not predicate or "past" in fact.tenses:
        return bool(predicate)
    first = predicate[0]
    is_past = first.is_past or first.text.endswith("ed") or first.text in FORMS.past
    return is_past and not first.follows_be


def _names_relative(gap: _Gap, alignment: Alignment) -> bool:
    """Return whether both facts name a relative, of whom there may be several: not two sons."""
    named = (gap.fact.words[a] for a, _ in alignment.pairs)
    return any(word.entry.stem in lexicon.RELATIVES and not word.is_counted for word in named)


def _may_both_hold(gap: _Gap, alignment: Alignment) -> bool:
    """Return whether the fact may have several such values: likes tea and coffee."""
    paired = [gap.fact.words[a] for a, _ in alignment.pairs if a >= gap.fact.predicate]
    named = {gap.fact.words[a].entry.stem for a, _ in alignment.pairs}
    if _names_relative(gap, alignment) and named.isdisjoint(lexicon.ATTRIBUTES):
        return True  # has a sister in Rome, but not: the sister's name is Ann
    has = "has" in gap.fact.tenses and not gap.words[0].marker
    if not has and not any(word.entry.stem in lexicon.SEVERAL for word in paired):
        return False
    if gap.has_number:
        recurring = gap.words[0].text
        return recurring[1:].isalpha() and recurring.endswith("s")
    # uses MySQL for billing
    return not any(word.marker in ("for", "as") for word in paired)


def _is_wish(gap: _Gap, alignment: Alignment) -> bool:
    """Return whether the fact is a wish for things of a kind: wants short answers."""
    words, after = gap.fact.words, gap.places[-1] + 1
    partners = {a for a, _ in alignment.pairs}
    return (
        after in partners
        and not words[after].is_single
        and not words[after - 1].is_single
        and any(words[a].entry.stem in WISHES for a in partners)
    )


def _is_single_value(one: _Gap, other: _Gap, alignment: Alignment) -> bool:
    """Return whether the fact has one such value at a time: lives in Rome, the color is blue."""
    facts, first = (one.fact, other.fact), (one.words[0], other.words[0])
    paired = [one.fact.words[a] for a, _ in alignment.pairs]
    if any(word.entry.stem in lexicon.ATTRIBUTES for word in paired):
        return True
    if not any(fact.has_verb or fact.tenses for fact in facts):
        return False  # meeting with Bob at 3 pm
    is_state = _ends_with_state(one) and _ends_with_state(other)
    if (all(fact.has_verb for fact in facts) and not is_state) or any(
        word.marker in _LOCATED for word in first
    ):
        return True
    if any(
        (a >= one.fact.predicate or b >= other.fact.predicate) and not one.fact.words[a].is_number
        for a, b in alignment.pairs
    ):
        return True
    if len(one.words) > 1 and len(other.words) > 1 and any(word.marker == "of" for word in paired):
        return True  # the CEO of Acme is Jane Doe
    is_person = any(
        subject.entry.stem in lexicon.GENERIC or subject.is_capital
        for fact in facts
        for subject in fact.words[: fact.predicate]
        if subject.marker != "of" and subject not in first
    )
    return all(word.is_capital and word.marker != "with" for word in first) and not is_person
