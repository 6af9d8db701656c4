"""Phrases that are replaced by plain words: `is fluent in` becomes speaks.

A line of words/phrases.txt applies to all forms of the verb marked with ~, and its replacement
has the same form. A final # requires a number after the phrase; *ing requires a word that ends
with ing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memrelay.memory.search.text.irregular import lines

_VOWELS = frozenset("aeiou")
_DOUBLING = frozenset("bdgklmnprt")
BE = (("be", "are", "am"), ("is",), ("was", "were"), ("been",), ("being",))
HAVE = (("have",), ("has",), ("had",), ("had",), ("having",))

Forms = tuple[tuple[str, ...], ...]  # base, third person, past, participle, with ing


def forms_of(verb: str, irregular: Mapping[str, Sequence[str]]) -> Forms:
    """Return the forms of a verb. `irregular` maps verbs to past and differing participle."""
    if verb in ("be", "have"):
        return BE if verb == "be" else HAVE
    past = list(irregular.get(verb, ())) or [_past(verb)]
    return (verb,), (with_s(verb),), (past[0],), (past[-1],), (_continuous(verb),)


def with_s(verb: str) -> str:
    """Return the third person of a verb, or the plural of a noun: tries, boxes."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb[-1] == "y" and verb[-2:-1] not in _VOWELS else verb + "s"


def _past(verb: str) -> str:
    if verb[-1] == "e":
        return verb + "d"
    if verb[-1] == "y" and verb[-2:-1] not in _VOWELS:
        return verb[:-1] + "ied"
    return _double(verb) + "ed"


def _continuous(verb: str) -> str:
    if verb[-1] == "e" and verb[-2:] not in ("ee", "ie"):
        return verb[:-1] + "ing"
    return (verb[:-2] + "y" if verb[-2:] == "ie" else _double(verb)) + "ing"


def _double(verb: str) -> str:
    """Double the last letter of a short verb, as in stop: one vowel between consonants."""
    short = (
        len(verb) in (3, 4)
        and verb[-1] in _DOUBLING
        and verb[-2] in _VOWELS
        and verb[-3] not in _VOWELS
    )
    return verb + verb[-1] if short else verb


BEING = frozenset(
    ("is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got", "gotten")
)
HAVING = frozenset(("have", "has", "had", "having"))


class Phrase(NamedTuple):
    """A sequence of words and its replacement."""

    words: list[str]
    replacement: list[str]
    never_after: frozenset[str]  # words before it that give it another meaning
    only_after: frozenset[str] = frozenset()  # words of which one must precede it; empty for any
    before: str = ""  # `#`: a number must follow; `ing`: a word with this ending must follow

    def matches(self, texts: Sequence[str], at: int) -> bool:
        """Return whether the phrase occurs at this position."""
        end = at + len(self.words)
        if texts[at:end] != self.words or (
            self.before and not (end < len(texts) and self._follows(texts[end]))
        ):
            return False
        before = texts[at - 1] if at else ""
        return before not in self.never_after and (not self.only_after or before in self.only_after)

    def _follows(self, text: str) -> bool:
        return text[0] in _FIGURES if self.before == "#" else text.endswith(self.before)


Phrases = dict[str, list[Phrase]]  # by the first two words or the only one, longest first
_FIGURES = frozenset("0123456789$\u20ac\u00a3")
_BEFORE = ("#", "*ing")
_PAST, _PARTICIPLE = 2, 3  # indexes of the forms


def load_phrases(irregular: Mapping[str, Sequence[str]]) -> Phrases:
    """Return the phrases of the list in all forms."""
    written = [tuple(side.split() for side in line.split("=", 1)) for line in lines("phrases")]
    found: Phrases = {}
    for words, replacement in sorted(written, key=lambda two: -len(two[0])):
        for phrase in _all_forms(words, replacement, irregular):
            found.setdefault(" ".join(phrase.words[:2]), []).append(phrase)
    return found


def _all_forms(
    words: list[str], replacement: list[str], irregular: Mapping[str, Sequence[str]]
) -> Iterator[Phrase]:
    """Yield the phrase in each form of its verb.

    `reported` is a past form. After `has` it is a participle. After `is` the phrase is skipped.
    """
    verb = next((word[1:] for word in words if word[0] == "~"), "")
    if not verb:
        before = words[-1].removeprefix("*") if words[-1] in _BEFORE else ""
        yield Phrase(words[:-1] if before else words, replacement, frozenset(), before=before)
        return
    other = next((word[1:] for word in replacement if word[0] == "~"), "")
    others = forms_of(other, irregular) if other else ((),) * 5
    for place, (texts, same) in enumerate(zip(forms_of(verb, irregular), others, strict=True)):
        for text in texts:
            never, only = frozenset[str](), frozenset[str]()
            if place == _PAST and verb not in ("be", "have"):
                never = BEING | HAVING
            if place == _PARTICIPLE:
                only = HAVING if other == "be" else BEING | HAVING
            yield Phrase(
                _insert_form(words, text),
                _insert_form(replacement, same[0] if same else ""),
                never,
                only,
            )


def _insert_form(words: list[str], form: str) -> list[str]:
    return [form if word[0] == "~" else word for word in words]
