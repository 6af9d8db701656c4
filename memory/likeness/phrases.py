"""Words that say something together, and what is read instead: `is fluent in` is speaks, `took
place` is happened.

A line of words/phrases.txt holds for each form of the verb that is marked in it with a ~, and its
other side has the same form;
one with a # at its end holds before a number, one with *ing before a word that ends so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memory.likeness.inflection import forms_of
from memory.likeness.lists import lines

BEING = frozenset(
    ("is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got", "gotten")
)
HAVING = frozenset(("have", "has", "had", "having"))


class Phrase(NamedTuple):
    """Words that stand beside each other."""

    words: list[str]
    instead: list[str]
    never_after: frozenset[str]  # words before it that make it say something else
    only_after: frozenset[str] = frozenset()  # of which one must stand before it; empty for any
    before: str = ""  # `#` where it holds before a number, `ing` before a word that ends so

    def stands(self, texts: Sequence[str], at: int) -> bool:
        """Whether it does at that place."""
        end = at + len(self.words)
        if texts[at:end] != self.words or (
            self.before and not (end < len(texts) and self._follows(texts[end]))
        ):
            return False
        before = texts[at - 1] if at else ""
        return before not in self.never_after and (not self.only_after or before in self.only_after)

    def _follows(self, text: str) -> bool:
        return text[0] in _FIGURES if self.before == "#" else text.endswith(self.before)


Phrases = dict[str, list[Phrase]]  # by their first two words, or the one, the longest first
_FIGURES = frozenset("0123456789$\u20ac\u00a3")
_BEFORE = ("#", "*ing")
_PAST, _PARTICIPLE = 2, 3  # places among the forms


def phrases(irregular: Mapping[str, Sequence[str]]) -> Phrases:
    """Those of the list, in every form."""
    written = [tuple(side.split() for side in line.split("=", 1)) for line in lines("phrases")]
    found: Phrases = {}
    for words, instead in sorted(written, key=lambda two: -len(two[0])):
        for phrase in _forms(words, instead, irregular):
            found.setdefault(" ".join(phrase.words[:2]), []).append(phrase)
    return found


def _forms(
    words: list[str], instead: list[str], irregular: Mapping[str, Sequence[str]]
) -> Iterator[Phrase]:
    """In each form of the verb. `reported` is a past, behind `has` a participle, and behind `is` no
    `was managed`."""
    verb = next((word[1:] for word in words if word[0] == "~"), "")
    if not verb:
        before = words[-1].removeprefix("*") if words[-1] in _BEFORE else ""
        yield Phrase(words[:-1] if before else words, instead, frozenset(), before=before)
        return
    other = next((word[1:] for word in instead if word[0] == "~"), "")
    others = forms_of(other, irregular) if other else ((),) * 5
    for place, (texts, same) in enumerate(zip(forms_of(verb, irregular), others, strict=True)):
        for text in texts:
            never = (
                BEING | HAVING
                if place == _PAST and verb not in ("be", "have")
                else frozenset[str]()
            )
            only = (
                (HAVING if other == "be" else BEING | HAVING)
                if place == _PARTICIPLE
                else frozenset[str]()
            )
            yield Phrase(_with(words, text), _with(instead, same[0] if same else ""), never, only)


def _with(words: list[str], form: str) -> list[str]:
    return [form if word[0] == "~" else word for word in words]
