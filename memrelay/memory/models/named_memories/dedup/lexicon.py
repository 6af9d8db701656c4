"""The lexicon: synonyms, contrasts and stems of words, and the grammar of function words.

The lists in memory/dedup/words/ are mainly English, with a few words of other languages.
"""

import threading
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup.phrases import load_phrases
from memrelay.memory.search.text.irregular import FORMS, lines, table
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text.stopwords import STOP_WORDS

LONGEST = 40  # letters; longer words are not stemmed
ENGLISH = "english"
ABROAD = ("german", "french", "spanish", "italian", "portuguese", "dutch")
PHRASES = load_phrases(FORMS.verbs)
_WORDS = table("grammar")
# Endings of derived words, and the minimum length of the rest.
_ENDINGS = {ending: int(length) for ending, length in _WORDS["ending"].items()}
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
ORDERS = frozenset(_WORDS["order"])  # verbs that begin an order
ACTORS = frozenset(_WORDS["actor"])
ACTOR_ENDINGS = tuple(_WORDS["actor-ending"])
OPPOSED = [set(pair.split("+")) for pair in _WORDS["opposed"]]  # prepositions
STRONG = _WORDS["strong"]  # prepositions with a strong meaning, and the meaning
# Verbs with which `by 200` may omit the `by`, and differs from `to 200`.
CHANGES = frozenset(_WORDS["change"])
BEFORE_NUMBERS = frozenset(_WORDS["before-number"])
DEFINITE = frozenset(_WORDS["definite"])
# Function words that are names if capitalized.
ALSO_NAMES = frozenset(("max", "min", "will", "can"))
_FOREIGN_NAMES = frozenset(("ben", "dan", "mia", "wil", "al", "des", "son"))  # in other languages


class LexiconEntry(NamedTuple):
    """The knowledge about a word."""

    stem: str
    root: str = ""  # shared with derived words; "" for none
    groups: frozenset[int] = frozenset()  # lines of synonyms
    # (line, side) of contrasts; lines below 0 have nothing between their sides
    sides: frozenset[tuple[int, int]] = frozenset()

    def excludes(self, other: "LexiconEntry") -> bool:
        """Return whether the words are on different sides of a contrast."""
        if not self.sides or not other.sides:
            return False
        lines = dict(self.sides)
        return any(lines.get(line, side) != side for line, side in other.sides)


def complements(one: LexiconEntry, other: LexiconEntry) -> bool:
    """Return whether one word means exactly the opposite of the other, like open and closed."""
    lines = dict(one.sides)
    return any(line < 0 and lines.get(line, side) != side for line, side in other.sides)


class _Stemmers(threading.local):
    """One set of stemmers per thread, because a stemmer is not thread-safe."""

    def __init__(self) -> None:
        self.of: dict[str, Stems] = {}


_stemmers = _Stemmers()


def stem_of(word: str, language: str) -> str:
    """Return the stem of a lowercase word."""
    if len(word) > LONGEST:
        return word
    stems = _stemmers.of.get(language) or _stemmers.of.setdefault(language, Stems(language))
    return stems.stem(FORMS.base.get(word, word) if language == ENGLISH else word)


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of English words."""
    return frozenset(stem_of(word, ENGLISH) for word in words)


# Words that may be a verb.
VERBS = stems_of(
    (
        *FORMS.verbs,
        *(word for word, kind in OMISSIBLE.items() if kind in ("having", "timed", "deed", "being")),
        *(word for kind in ("order", "start", "done-to", "saying") for word in _WORDS[kind]),
        *(word for kind in ("wish", "change", "light", "several") for word in _WORDS[kind]),
        *_WORDS["settle"],
        *(word for states in STARTS.values() for word in states),
    )
)
# Words with which a fact may hold several values at once: likes tea and coffee.
SEVERAL = stems_of(_WORDS["several"])
RELATIVES = stems_of(_WORDS["relative"])
SETTLING = stems_of((*_WORDS["settle"], *_WORDS["once"]))  # their past sets a state
ATTRIBUTES = stems_of(_WORDS["attribute"])
DISTINCT = stems_of(_WORDS["distinct"])  # directions, times and units
GENERIC = stems_of(_WORDS["generic"])  # subjects that need no mention


@cache
def _groups() -> dict[tuple[str, str], frozenset[int]]:
    """Return (language, stem) -> lines of synonyms that contain it."""
    found: dict[tuple[str, str], set[int]] = {}
    language = ENGLISH
    for number, line in enumerate(lines("synonyms")):
        if line.startswith("="):
            language = line[1:].strip()
        else:
            for word in line.split():
                found.setdefault((language, stem_of(word, language)), set()).add(number)
    return {key: frozenset(numbers) for key, numbers in found.items()}


@cache
def _sides() -> dict[str, frozenset[tuple[int, int]]]:
    """Return stem -> (line, side) of contrasts that contain it."""
    found: dict[str, set[tuple[int, int]]] = {}
    for number, line in enumerate(lines("contrasts")):
        number = -1 - number if line.startswith("!") else number
        for side, words in enumerate(line.lstrip("! ").split("|")):
            for word in words.split():
                found.setdefault(stem_of(word, ENGLISH), set()).add((number, side))
    return {stem: frozenset(sides) for stem, sides in found.items()}


@lru_cache(8192)
def look_up(word: str, language: str = ENGLISH) -> LexiconEntry:
    """Return the knowledge about a lowercase word. All forms of a word give the same result."""
    groups = _groups()
    stems = {language, ENGLISH, *ABROAD}
    found = frozenset[int]().union(*(groups.get((one, stem_of(word, one)), ()) for one in stems))
    english = stem_of(word, ENGLISH)
    return LexiconEntry(
        stem_of(word, language), _root(english), found, _sides().get(english, frozenset())
    )


def _root(stem: str) -> str:
    """Return the root in American spelling: employ for employee, lisens for licence."""
    if len(stem) < 5:
        return stem
    plain = stem.replace("our", "or").replace("is", "iz").replace("c", "s")
    plain = plain[0] + "".join(two for one, two in pairwise(plain) if one != two)
    return next(
        (
            plain.removesuffix(end)
            for end, least in _ENDINGS.items()
            if plain.endswith(end) and len(plain) - len(end) >= least
        ),
        plain,
    )


# Verbs that order an answer, and their objects.
ANSWERING, ANSWERS = frozenset(_WORDS["answering"]), frozenset(_WORDS["answer"])


class FunctionWord(NamedTuple):
    """The grammatical effect of a function word."""

    marker: str  # the marker of the next words; "" for none
    denies: bool
    features: tuple[str, ...]  # features as `kind:value`
    tenses: tuple[str, ...]  # past, perfect, now, doing, will


def _features_of(word: str) -> FunctionWord:
    features = tuple(f"{kind}:{_WORDS[kind][word]}" for kind in _FEATURES if word in _WORDS[kind])
    denies = word in _WORDS["negation"]
    marker = word if word in MARKERS else ""
    tense = _WORDS["auxiliary"].get(word, "-")
    tenses = () if tense == "-" else (tense,)
    return FunctionWord("not" if denies else marker, denies, features, tenses)


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
