"""Who does it and to whom it is done, where one text says it in the passive: what Eva wrote was
written by Eva."""

from collections.abc import Sequence
from itertools import pairwise

from memory.likeness import grammar
from memory.likeness.lexicon import stems_of
from memory.likeness.reading import Reading, Word

Pairs = Sequence[tuple[int, int]]  # the places of a word in the two texts

_DOER = ("er", "or", "boss", "lead", "head", "chief", "coach")  # how nouns end that say who does it
_NAMED = ("named", "called")
_DONE_TO = stems_of(grammar.DONE_TO)


def doer_differs(passive: Reading, active: Reading, pairs: Pairs) -> bool:
    """Whether another does it than behind the `by` of the first text. What it is done to stands
    first there."""
    partner = dict(pairs)
    subject = next((at for at, word in enumerate(passive.words) if word.marker in ("", "of")), None)
    doers = [at for at, word in enumerate(passive.words) if word.marker == "by" and at in partner]
    markers = {active.words[partner[at]].marker for at in doers}
    if subject is None or subject not in partner or not doers:
        return "" in markers and all(b < d for (_, b), (_, d) in pairwise(sorted(pairs)))
    if markers == {"of"}:  # Tom is managed by Eva, and he is not her manager
        return any(passive.words[a].done and active.words[b].text.endswith(_DOER) for a, b in pairs)
    if active.words[partner[subject]].marker == "of":  # Eva is the author of the report
        return False
    return "" in markers and (subject < doers[0]) != (partner[subject] > partner[doers[0]])


def done_differs(passive: Reading, active: Reading, pairs: Pairs) -> bool:
    """Whether what is done to someone in the first text is done by him in the second: was given
    access, gave access."""
    return any(_turned(passive, active, two, pairs) for two in pairs if passive.words[two[0]].done)


def doer_named_differs(named: Reading, told: Reading, pairs: Pairs) -> bool:
    """Whether the first text names who does it, and whose doer he is does it in the second: Eva's
    teacher, and Eva teaches."""
    partner = dict(pairs)
    return any(
        named.words[at].text.endswith(_DOER)
        and not told.words[near].text.endswith(_DOER)
        and at - 1 in partner
        and named.words[at - 1].marker == "of"
        and partner[at - 1] == near - 1
        and not told.words[near - 1].marker
        and len(told.words) > near + 1
        for at, near in pairs
    )


def _turned(passive: Reading, active: Reading, verb: tuple[int, int], pairs: Pairs) -> bool:
    """Whether it is so with that verb."""
    done, does = passive.words[verb[0]], active.words[verb[1]]
    named = does.text == done.text or (
        does.text in _NAMED and done.text in _NAMED and active.words[verb[1] - 1].single
    )
    if does.being or verb[1] == 0 or (active.tenses and named):  # has a dog named Rex
        return False
    back = {there: here for here, there in pairs}
    subject = back.get(verb[1] - 1)
    if subject is None or active.words[verb[1] - 1].marker:
        return False
    marker, someone = (
        passive.words[subject].marker,
        done.known.stem == does.known.stem and done.known.stem in _DONE_TO,
    )
    if marker:
        return marker == "to" and someone
    has_object = back.get(verb[1] + 1, -1) > verb[0] and _is_object(active.words[verb[1] + 1])
    return subject == verb[0] - 1 and (someone or has_object)


def _is_object(word: Word) -> bool:
    """Whether a word behind a verb is what something is done to, and not how or when."""
    return not (
        word.marker or word.number or word.text.startswith("p:") or word.text.endswith("ly")
    )
