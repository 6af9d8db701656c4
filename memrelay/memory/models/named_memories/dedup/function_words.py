"""Function words: the grammatical features that they express, and word classes by grammar."""

from typing import NamedTuple

from memrelay.memory.search.text.irregular import table
from memrelay.memory.search.text.stopwords import STOP_WORDS

_WORDS = table("grammar")
_FEATURES = ("mode", "person", "signal", "clause")

ARTICLES = frozenset(_WORDS["article"])
AND = frozenset(_WORDS["and"])  # the next word keeps the marker of the previous one
CONJUNCTIONS = AND | frozenset(_WORDS["but"])
MARKERS = frozenset(_WORDS["marker"])  # prepositions, which mark the role of the next words
# Means of sending, paying or reaching; after `by` they are not the actor.
MEANS = frozenset(_WORDS["means"])
LIGHT = frozenset(_WORDS["light"])  # verbs with little meaning
OMISSIBLE = _WORDS["unsaid"]  # words that may be omitted, with the condition (parser.py)
# Verbs that start a state, with the verbs of that state.
STARTS = {word: states.split("+") for word, states in _WORDS["start"].items()}
# Verbs for which it matters whether the verb or its content is negated.
SAYING = frozenset(_WORDS["saying"])
IN_OR_ON = frozenset(_WORDS["in-or-on"])  # nouns with which in and on mean the same
WITH_RECIPIENT = frozenset(_WORDS["done-to"])  # verbs whose actor and recipient differ
SYMMETRIC = frozenset(_WORDS["symmetric"])
WISHES = frozenset(_WORDS["wish"])
# Verbs that order an answer, and their objects.
ANSWERING, ANSWERS = frozenset(_WORDS["answering"]), frozenset(_WORDS["answer"])
ORDERS = frozenset(_WORDS["order"])  # verbs that begin an order
# Function words that are names if capitalized.
ALSO_NAMES = frozenset(("max", "min", "will", "can"))
_FOREIGN_NAMES = frozenset(("ben", "dan", "mia", "wil", "al", "des", "son"))  # in other languages


class FunctionWord(NamedTuple):
    """The grammatical effect of a function word."""

    marker: str  # the marker of the next words; "" for none
    denies: bool
    features: tuple[str, ...]  # features as `kind:value`
    tenses: tuple[str, ...]  # past, perfect, now, doing, will


def _features_of(word: str) -> FunctionWord:
    features = tuple(f"{kind}:{_WORDS[kind][word]}" for kind in _FEATURES if word in _WORDS[kind])
    denies = word in _WORDS["negation"]
    tense = _WORDS["auxiliary"].get(word, "-")
    return FunctionWord(
        "not" if denies else word if word in MARKERS else "",
        denies,
        features,
        () if tense == "-" else (tense,),
    )


FUNCTION_WORDS = {
    word: _features_of(word)
    for kind in ("negation", *_FEATURES, "auxiliary", "marker", "article", "and", "but", "dropped")
    for word in _WORDS[kind]
}


def detect_language(words: frozenset[str]) -> str:
    """Return the language of most function words; English if that is unclear."""
    words -= _FOREIGN_NAMES
    english = len(words & STOP_WORDS["english"])
    if english * 3 >= len(words):
        return "english"
    most = max(STOP_WORDS, key=lambda language: len(words & STOP_WORDS[language]))
    return most if len(words & STOP_WORDS[most]) > english else "english"
