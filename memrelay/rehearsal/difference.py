"""Compares two runs of the same inputs: records, decisions, messages, dead letters and requests.

Ids of records differ as soon as an agent is renamed, so records are matched by input, store, kind
and position, and by their text. The ids of matched records count as equal.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from memrelay.rehearsal.records import RunRecord, list_records, list_untouched
from memrelay.rehearsal.runner import Noted, Side

GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
WORD = re.compile(r"\s+\S*|\S+")
# A longer text is compared as a whole: the time of a word diff grows with the square.
MAX_WORDS = 2000
# Columns of a record that are compared, besides its source.
COMPARED = ("content", "kind", "key", "owner", "data", "tags", "expires_at", "in_context", "thread")
RecordChange = Literal["added", "missing", "changed"]


class RecordPair(NamedTuple):
    """A record of each side. None if that side has none."""

    then: RunRecord | None
    candidate: RunRecord | None


class RecordDifference(NamedTuple):
    """A record that differs. `fields` has the values of each side by the name of the column."""

    change: RecordChange
    pair: RecordPair
    fields: dict[str, tuple[Any, Any]]


class NoteDifference(NamedTuple):
    """Something that an input has led to on one side only, or in another form. None for nothing."""

    input: int
    then: Any
    candidate: Any


class Difference(NamedTuple):
    """All differences, in the order of the inputs.

    `sources` counts the records that differ only in their source, by (then, candidate). `order`
    counts the inputs that have led to the same in another order, by the name of the list.
    """

    records: list[RecordDifference]
    sources: dict[tuple[str, str], int]
    decisions: list[NoteDifference]
    messages: list[NoteDifference]
    dead_letters: list[NoteDifference]
    requests: list[NoteDifference]
    deliveries: list[NoteDifference]
    order: dict[str, int]


def compare(then: Side, candidate: Side) -> Difference:
    """Return the differences between two runs."""
    old, new = list_records(then), list_records(candidate)
    old, new = old + list_untouched(then, old, new), new + list_untouched(candidate, new, old)
    pairs = list(match(old, new))
    ids = {
        one.candidate.guid: one.then.guid
        for one in pairs
        if one.then is not None and one.candidate is not None
    }
    names = _Names(ids)
    sources: dict[tuple[str, str], int] = defaultdict(int)
    records = [one for pair in pairs if (one := _compare_pair(pair, names, sources)) is not None]
    records.sort(key=_order)

    order: Counter[str] = Counter()

    def notes(name: str, select: Callable[[Noted], Iterable[Hashable]]) -> list[NoteDifference]:
        found, order[name] = _compare_notes(then, candidate, select, names)
        return found

    return Difference(
        records,
        dict(sources),
        notes("decisions", lambda one: one.decisions),
        # Names of agents do not count, because agents are renamed.
        notes("messages", lambda one: [each._replace(sender="") for each in one.messages]),
        notes("dead_letters", lambda one: [each._replace(agent="") for each in one.dead_letters]),
        notes("requests", lambda one: [each._replace(agent="") for each in one.requests]),
        notes("deliveries", lambda one: one.deliveries),
        dict(+order),
    )


def leave_out_unrehearsed(difference: Difference, then: Side, candidate: Side) -> Difference:
    """Return the differences without what follows from results of deferred calls that only one side
    has. The requests stay, because they are the reason.
    """
    only_then = candidate.unrehearsed.keys() - then.unrehearsed.keys()
    only_candidate = then.unrehearsed.keys() - candidate.unrehearsed.keys()

    def is_known(pair: RecordPair) -> bool:
        before, after = pair
        is_of_then = before is not None and before.result_of in only_then
        is_of_candidate = after is not None and after.result_of in only_candidate
        return not (is_of_then or is_of_candidate)

    def select(notes: Sequence[NoteDifference]) -> list[NoteDifference]:
        return [
            one
            for one in notes
            if not (one.candidate is None and one.input in only_then)
            and not (one.then is None and one.input in only_candidate)
        ]

    return difference._replace(
        records=[one for one in difference.records if is_known(one.pair)],
        decisions=select(difference.decisions),
        messages=select(difference.messages),
        dead_letters=select(difference.dead_letters),
        deliveries=select(difference.deliveries),
    )


def match(then: Sequence[RunRecord], candidate: Sequence[RunRecord]) -> Iterator[RecordPair]:
    """Yield each record with that of the other side.

    Of one input, store and kind, equal texts belong together, then the same agents, then the same
    positions. The rest belongs together by text, and by guid.
    """
    left, right = list(then), list(candidate)
    for key in _KEYS:
        others: dict[Hashable, list[RunRecord]] = defaultdict(list)
        for one in right:
            if (name := key(one)) is not None:
                others[name].append(one)
        remaining = []
        for one in left:
            found = others.get(key(one))
            if not found:
                remaining.append(one)
                continue
            yield RecordPair(one, found.pop(0))
        left, right = remaining, _left_of(right, others, key)
    yield from (RecordPair(one, None) for one in left)
    yield from (RecordPair(None, one) for one in right)


def _left_of(
    records: Sequence[RunRecord],
    others: dict[Hashable, list[RunRecord]],
    key: Callable[[RunRecord], Hashable],
) -> list[RunRecord]:
    """Return the records that found no other one, in their order."""
    left = {one.guid for found in others.values() for one in found}
    return [one for one in records if key(one) is None or one.guid in left]


def _by_guid(one: RunRecord) -> Hashable:
    return one.store, one.guid


def _old(one: RunRecord) -> Hashable:
    return _by_guid(one) if one.is_old else None


def _by_text(one: RunRecord) -> Hashable:
    return _new(one, one.kind, one.content)


def _by_agent(one: RunRecord) -> Hashable:
    return _new(one, one.kind, one.source)


def _by_kind(one: RunRecord) -> Hashable:
    return _new(one, one.kind)


def _by_text_of_input(one: RunRecord) -> Hashable:
    return _new(one, one.content)


def _by_text_alone(one: RunRecord) -> Hashable:
    return None if one.is_old else (one.store, one.content)


def _new(one: RunRecord, *values: str) -> Hashable:
    """Return a key of a record that an input has created."""
    return None if one.input is None else (one.store, one.input, *values)


# The rules of `match` in their order. Records with the same key belong together in their order.
_KEYS: tuple[Callable[[RunRecord], Hashable], ...] = (
    *(_old, _by_text, _by_agent, _by_kind, _by_text_of_input, _by_text_alone, _by_guid),
)


class _Names:
    """Replaces the ids of the candidate's records by those of the matched ones."""

    def __init__(self, ids: dict[str, str]) -> None:
        self._ids = {other: own for other, own in ids.items() if other != own}

    def translate(self, value: Any) -> Any:
        """Return a text, or a tuple of values, with the ids of the time."""
        if not self._ids:
            return value
        if isinstance(value, str):
            return GUID.sub(lambda found: self._ids.get(found[0], found[0]), value)
        if isinstance(value, tuple):
            translated = map(self.translate, value)
            return value._make(translated) if hasattr(value, "_make") else tuple(translated)
        return value


def _compare_pair(
    pair: RecordPair, names: _Names, sources: dict[tuple[str, str], int]
) -> RecordDifference | None:
    before, after = pair
    old = before.state if before is not None else None
    new = after.state if after is not None else None
    if old is None and new is None:
        return None
    if old is None or new is None:
        return RecordDifference("added" if old is None else "missing", pair, {})
    fields = {
        name: (getattr(old, name), getattr(new, name))
        for name in COMPARED
        if getattr(old, name) != names.translate(getattr(new, name))
    }
    if fields:
        return RecordDifference("changed", pair, fields)
    if old.source != new.source:
        sources[old.source, new.source] += 1
    return None


def _order(one: RecordDifference) -> tuple[int, str]:
    record = one.pair.candidate or one.pair.then
    assert record is not None
    return -1 if record.input is None else record.input, record.store


def _compare_notes(
    then: Side,
    candidate: Side,
    select: Callable[[Noted], Iterable[Hashable]],
    names: _Names,
) -> tuple[list[NoteDifference], int]:
    """Return what an input has led to on one side only, and how many inputs have led to the same in
    another order. A replacement is one difference.
    """
    differences, reordered, empty = list[NoteDifference](), 0, Noted()
    for number in sorted({*then.noted, *candidate.noted}):
        before = list(select(then.noted.get(number, empty)))
        after = list(select(candidate.noted.get(number, empty)))
        translated = [names.translate(one) for one in after]
        if before == translated:
            continue
        only_then = Counter(before) - Counter(translated)
        only_after = Counter(translated) - Counter(before)
        listed = len(differences)
        for tag, a, b, c, d in SequenceMatcher(None, before, translated, False).get_opcodes():
            if tag != "equal":
                gone = [one for one in before[a:b] if _take(only_then, one)]
                new = [after[at] for at in range(c, d) if _take(only_after, translated[at])]
                differences += _replaced(number, gone, new)
        reordered += len(differences) == listed
    return differences, reordered


def _take(left: Counter[Hashable], one: Hashable) -> bool:
    """Return whether one of these is left, and take it."""
    left[one] -= 1
    return left[one] >= 0


def _replaced(number: int, before: Sequence[Any], after: Sequence[Any]) -> Iterator[NoteDifference]:
    for at in range(max(len(before), len(after))):
        yield NoteDifference(
            number,
            before[at] if at < len(before) else None,
            after[at] if at < len(after) else None,
        )


def diff_words(before: str, after: str) -> list[tuple[str, str]]:
    """Return the difference of two texts in words, as (=, - or +, text).

    Spaces in front of a word do not matter, unless nothing else differs.
    """
    old, new = WORD.findall(before), WORD.findall(after)
    a_words, b_words = ([word.strip() for word in words] for words in (old, new))
    if max(len(old), len(new)) > MAX_WORDS or a_words == b_words:
        return [("-", before), ("+", after)]
    parts = list[tuple[str, str]]()
    for tag, a, b, c, d in SequenceMatcher(None, a_words, b_words, False).get_opcodes():
        if tag == "equal":
            parts.append(("=", "".join(old[a:b])))
            continue
        parts += [
            (sign, text)
            for sign, text in (("-", "".join(old[a:b])), ("+", "".join(new[c:d])))
            if text
        ]
    return parts
