"""The small words of a sentence: what they say of it, where they say anything, or that they may
go."""

from typing import NamedTuple

from memrelay.memory.dedup.irregular import table
from memrelay.memory.text.stopwords import STOP_WORDS

_WORDS = table("grammar")
_SAID = ("mode", "person", "signal", "clause")

ARTICLES = frozenset(_WORDS["article"])
AND = frozenset(_WORDS["and"])  # what follows has the marker of what came before
JOINS = AND | frozenset(_WORDS["but"])
MARKERS = frozenset(_WORDS["marker"])  # prepositions, which tell the role of what follows
MEANS = frozenset(
    _WORDS["means"]
)  # by which something is sent, paid or reached, and who did not do it
LIGHT = frozenset(_WORDS["light"])  # verbs that say little
UNSAID = _WORDS["unsaid"]  # words that may go unsaid, each with where (memory/dedup/parser.py)
STARTS = {
    word: states.split("+") for word, states in _WORDS["start"].items()
}  # verbs, and what is so afterwards
SAYING = frozenset(
    _WORDS["saying"]
)  # verbs of which it counts whether they are denied, or what is said
IN_OR_ON = frozenset(_WORDS["in-or-on"])  # nouns that have the one or the other, and mean the same
DONE_TO = frozenset(_WORDS["done-to"])  # verbs of which who does it and whom it is done to differ
SYMMETRIC = frozenset(_WORDS["symmetric"])
WISHES = frozenset(_WORDS["wish"])
ANSWERING, ANSWERS = (
    frozenset(_WORDS["answering"]),
    frozenset(_WORDS["answer"]),
)  # verbs of an order, and what they are about
ORDERS = frozenset(_WORDS["order"])  # verbs with which an order begins


class Small(NamedTuple):
    """What a small word does in a fact."""

    marker: str  # for the words after it; "" for none
    denies: bool
    said: tuple[str, ...]  # `kind:value`
    tenses: tuple[str, ...]  # past, perfect, now, doing, will


def _small(word: str) -> Small:
    said = tuple(f"{kind}:{_WORDS[kind][word]}" for kind in _SAID if word in _WORDS[kind])
    denies = word in _WORDS["negation"]
    tense = _WORDS["auxiliary"].get(word, "-")
    return Small(
        "not" if denies else word if word in MARKERS else "",
        denies,
        said,
        () if tense == "-" else (tense,),
    )


NAMES = frozenset(
    ("max", "min", "will", "can")
)  # small words that are names too, where a capital says so
_NAMES_TOO = frozenset(("ben", "dan", "mia", "wil", "al", "des", "son"))  # small words abroad

SMALL = {
    word: _small(word)
    for kind in ("negation", *_SAID, "auxiliary", "marker", "article", "and", "but", "dropped")
    for word in _WORDS[kind]
}


def language_of(words: frozenset[str]) -> str:
    """The language that most of the small words are of; English where that is not clear."""
    words -= _NAMES_TOO
    english = len(words & STOP_WORDS["english"])
    if english * 3 >= len(words):
        return "english"
    most = max(STOP_WORDS, key=lambda language: len(words & STOP_WORDS[language]))
    return most if len(words & STOP_WORDS[most]) > english else "english"
