"""The forms of English verbs, for lists that name a verb once: take, takes, took, taken, taking."""

from collections.abc import Mapping, Sequence

_VOWELS = frozenset("aeiou")
_DOUBLING = frozenset("bdgklmnprt")
BE = (("be", "are", "am"), ("is",), ("was", "were"), ("been",), ("being",))
HAVE = (("have",), ("has",), ("had",), ("had",), ("having",))

Forms = tuple[tuple[str, ...], ...]  # as it is, with an s, past, participle, with ing


def forms_of(verb: str, irregular: Mapping[str, Sequence[str]]) -> Forms:
    """Its forms. `irregular` has the past, and the participle where that differs, of the verbs that
    are."""
    if verb in ("be", "have"):
        return BE if verb == "be" else HAVE
    past = list(irregular.get(verb, ())) or [_past(verb)]
    return (verb,), (with_s(verb),), (past[0],), (past[-1],), (_continuous(verb),)


def with_s(verb: str) -> str:
    """The third person of a verb, or the plural of a noun: tries, boxes."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb[-1] == "y" and verb[-2:-1] not in _VOWELS else verb + "s"


def _past(verb: str) -> str:
    if verb[-1] == "e":
        return verb + "d"
    if verb[-1] == "y" and verb[-2:-1] not in _VOWELS:
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def _continuous(verb: str) -> str:
    if verb[-1] == "e" and verb[-2:] not in ("ee", "ie"):
        return verb[:-1] + "ing"
    return (verb[:-2] + "y" if verb[-2:] == "ie" else _doubled(verb)) + "ing"


def _doubled(verb: str) -> str:
    """Stop with two p: a short verb of a vowel between two consonants."""
    short = (
        len(verb) in (3, 4)
        and verb[-1] in _DOUBLING
        and verb[-2] in _VOWELS
        and verb[-3] not in _VOWELS
    )
    return verb + verb[-1] if short else verb
