"""Parses a short fact: its content words in order, and the features of its function words.

Some words may be omitted without a difference: has (and drinks) coffee, is (written) in German,
the marketing (team), is 3 m (high).
"""

from bisect import bisect
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from memrelay.memory.models.named_memories.dedup import lexicon
from memrelay.memory.models.named_memories.dedup.lexicon import (
    ENGLISH,
    PHRASES,
    LexiconEntry,
    look_up,
    stem_of,
    stems_of,
)
from memrelay.memory.models.named_memories.dedup.numbers import WEAK, normalize_numbers
from memrelay.memory.models.named_memories.dedup.phrases import HAVING
from memrelay.memory.models.named_memories.dedup.predicates import find_verb, names_role
from memrelay.memory.models.named_memories.dedup.tokenizer import Token, tokenize
from memrelay.memory.search.text.irregular import FORMS
from memrelay.memory.search.text.stopwords import STOP_WORDS

LONGEST = 2000  # characters; longer facts are not parsed and match only if equal
MOST_WORDS = 120  # content words

_IS = ("is", "are", "was", "were")
_DROPPED = ("a", "an", "the")
_ONE = ("a", "an", WEAK)
_BOUNDS = {"over": ["signal:above"], "above": ["signal:above"], "under": ["signal:below"]}
_EVERY = ("every", "each")
_LAST_LATIN = "\u024f"
_ONLY_ENGLISH = STOP_WORDS["english"].difference(
    *(words for language, words in STOP_WORDS.items() if language != "english")
)
_LIGHT = stems_of(lexicon.LIGHT)
_BE = frozenset(
    word for word, function_word in lexicon.FUNCTION_WORDS.items() if function_word.tenses
) | frozenset(("be", "been", "get", "gets", "got", "getting"))
_PASSIVE = frozenset(
    ("is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got")
)
# finite verbs, which no order contains
_FINITE = frozenset(
    ("is", "are", "was", "were", "has", "had", "will", "should", "must", "does", "did")
)
_BEFORE_ORDERS = frozenset(("please", "always", "never", "do", "not", "also", "just"))
_BEFORE_PARTICIPLES = (
    lexicon.MARKERS | lexicon.ARTICLES | lexicon.AND | {"his", "her", "their", "our", "my", "your"}
)


class Word(NamedTuple):
    """A content word."""

    text: str
    entry: LexiconEntry
    marker: str  # the preposition or `not` before it; `of` also for an owner
    is_name: bool
    starts_sentence: bool  # capitalized at the start of a sentence, so possibly a name
    is_light: bool  # has little meaning
    # verb, deed, noun or class if the word may be omitted next to an `is` or a `has`; else ""
    omissible: str
    is_past: bool  # a verb in the past
    follows_be: bool  # after a form of be
    is_single: bool  # after `a` or `one`: a cat is not cats
    is_counted: bool  # after a number: a unit, or the things that are counted
    is_denied: bool  # the first word after a negation: not with Bob
    is_only: bool  # the first word after `only`: only admins
    is_joined: bool  # directly after `and`: Dan and Eve

    @property
    def is_number(self) -> bool:
        """Whether it is a number, a time, a date or a code."""
        return self.text[0] == "#"

    @property
    def is_capital(self) -> bool:
        """Whether it is a name, or possibly one."""
        return self.is_name or self.starts_sentence

    @property
    def is_passive_participle(self) -> bool:
        """Whether it is a participle after a form of be."""
        return self.follows_be and _is_participle(self.text)

    @property
    def is_continuous(self) -> bool:
        """Whether it is in the continuous form: is reading."""
        return self.follows_be and self.text.endswith("ing")

    @property
    def is_future(self) -> bool:
        """Whether it refers to the future."""
        return self.text in ("next", "tomorrow", "tonight", "soon")


class ParsedFact(NamedTuple):
    """A parsed fact."""

    words: tuple[Word, ...]
    negations: int
    features: frozenset[str]  # modes, persons and signals, each as `kind:value`
    tenses: frozenset[str]  # of its auxiliaries: past, perfect, now, doing, will
    conjunctions: int  # the number of `and`, `or` and `but`
    is_passive: bool  # `by` after a participle
    order: int  # the place of the verb of an order; -1 for none
    content: tuple[str, ...]  # all words without articles; facts with the same ones are equal
    is_english: bool  # False if its function words or its script belong to another language
    predicate: int  # the place of the first word of the predicate; the subject is before it
    names_role: bool  # the predicate names something of which there is one: is the manager
    has_verb: bool  # another verb than a form of be


@lru_cache(512)  # about 2 MB for facts of 100 characters
def parse(text: str) -> ParsedFact | None:
    """Parse a normalized text. Returns None if it is too long."""
    if len(text) > LONGEST:
        return None
    tokens = normalize_numbers(_replace_phrases(tokenize(text)))
    if text.rstrip().endswith("?"):
        tokens.append(Token("?"))
    parser = _Parser(tokens)
    parser.parse()
    return parser.result() if len(parser.words) <= MOST_WORDS else None


def _replace_phrases(tokens: list[Token]) -> list[Token]:
    """Replace phrases by their plain words."""
    found: list[Token] = []
    at = 0
    texts = [token.text for token in tokens]
    while at < len(tokens):
        beginning = PHRASES.get(" ".join(texts[at : at + 2])) or PHRASES.get(texts[at])
        if beginning is None:
            found.append(tokens[at])
            at += 1
            continue
        fitting = (
            phrase
            for phrase in beginning
            if phrase.matches(texts, at)
            and not any(
                token.is_name or token.is_possessive
                for token in tokens[at : at + len(phrase.words)]
            )
        )
        phrase = next(fitting, None)
        found += [Token(word) for word in phrase.replacement] if phrase else [tokens[at]]
        at += len(phrase.words) if phrase else 1
    return found


class _Parser:
    """Parses the tokens of a text in one pass."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._language = lexicon.detect_language(
            frozenset(token.text for token in tokens if not token.is_name)
        )
        self._stop_words = (
            frozenset[str]() if self._language == "english" else STOP_WORDS[self._language]
        )
        self.words: list[Word] = []
        self._places: list[int] = []  # of the words among the tokens
        self._marker = ""  # the present marker
        self._filled = False  # whether a word follows it already
        self._negations, self._participle, self._order, self._denied = 0, False, -1, False
        self._only = False  # whether no word has followed `only` yet
        self._features: set[str] = set()
        self._tenses: set[str] = set()

    def parse(self) -> None:
        order = next(
            (at for at, token in enumerate(self._tokens) if token.text not in _BEFORE_ORDERS), -1
        )
        for at, token in enumerate(self._tokens):
            if (
                at == order
                and token.text in lexicon.ORDERS
                and all(one.text not in _FINITE for one in self._tokens[at:])
            ):
                self._features.add("mode:please")
                self._order = len(self.words)
            is_name = token.is_name and (
                self._language != "english" or token.text in lexicon.ALSO_NAMES
            )
            if is_name or not self._apply_function_word(token.text, at):
                self._add_word(token, at)

    def result(self) -> ParsedFact:
        passive = any(word.marker == "by" for word in self.words)
        content = tuple(
            _singular(token.text, self._before(at))
            for at, token in enumerate(self._tokens)
            if token.text not in _DROPPED
        )
        conjunctions = sum(token.text in lexicon.CONJUNCTIONS for token in self._tokens)
        order = self._order if self._order < len(self.words) else -1
        verb, has_verb = find_verb(self._tokens) if order < 0 else (0, True)
        has_verb = has_verb and self._tokens[verb].text not in _PASSIVE
        predicate = bisect(self._places, verb - 1)
        return ParsedFact(
            tuple(self.words),
            self._negations,
            frozenset(self._features),
            frozenset(self._tenses),
            conjunctions,
            passive,
            order,
            content,
            self._language == "english" and not _is_foreign(self._tokens),
            predicate,
            names_role(self._tokens),
            has_verb or _is_verbal(self.words[predicate:]),
        )

    def _apply_function_word(self, text: str, at: int) -> bool:
        """Apply the effect of a function word. Returns False if it is a content word."""
        function_word = lexicon.FUNCTION_WORDS.get(text)
        if function_word is None and text not in self._stop_words:
            return False
        after = self._after(at)
        if after[:1] == "#" and text in _EVERY:
            self._marker, self._filled = "every", False
            return True
        if after[:1] == "#" and text in lexicon.BEFORE_NUMBERS:
            self._features.update(_BOUNDS.get(text, ()))
            return True
        if function_word is not None:
            self._features.update(function_word.features)
            self._tenses.update(
                function_word.tenses if text not in HAVING else [self._tense_of_have(text, at)]
            )
            self._negations += function_word.denies
            self._denied |= function_word.denies
            self._only |= "signal:only" in function_word.features
        # `a` is an article in English, and means `to` in other languages
        is_article = text == "a" and self._language == "english"
        if function_word is not None and function_word.marker and not is_article:
            self._marker, self._filled = self._marker_of(function_word.marker, after), False
        elif self._filled and text not in lexicon.AND:
            self._marker = ""
        return True

    def _tense_of_have(self, text: str, at: int) -> str:
        """Return whether `has`, `had` or `have` forms a perfect, or denotes possession."""
        after = [token.text for token in self._tokens[at + 1 : at + 4]]
        if "been" in after or any(_is_participle(word) or word in FORMS.timeless for word in after):
            return "perfect"
        return "past" if text == "had" else "has"

    def _marker_of(self, marker: str, after: str) -> str:
        """Return the marker; `by` marks the actor only after a participle: not in by bus."""
        return (
            "via"
            if marker == "by"
            and (after[:1] == "#" or after in lexicon.MEANS or not self._participle)
            else marker
        )

    def _add_word(self, token: Token, at: int) -> None:
        text = token.text
        if text == "used" and self._after(at) == "to" and not self._follows_be(at):
            self._tenses.add("past")
            return
        entry = LexiconEntry(text) if text[0] == "#" else look_up(text, self._language)
        if text in FORMS.timeless or text == "got":
            self._tenses.add("perfect")
        elif text == "born":  # `was born in` means `is from`
            self._tenses.discard("past")
        self._participle |= _is_participle(text)
        light, omissible = self._weight(text, entry, at)
        self._places.append(at)
        self.words.append(
            Word(
                text,
                entry,
                marker="of" if token.is_possessive and not self._marker else self._marker,
                is_name=token.is_name,
                starts_sentence=token.starts_sentence,
                is_light=light,
                omissible=omissible,
                is_past=self._past(text, at),
                follows_be=self._follows_be(at, _PASSIVE),
                is_single=self._single(at),
                is_counted=self._before(at)[:1] == "#" and text[0] != "#",
                is_denied=self._denied,
                is_only=self._only,
                is_joined=self._before(at) == "and",
            )
        )
        self._filled, self._denied, self._only = True, False, False

    def _weight(self, text: str, entry: LexiconEntry, at: int) -> tuple[bool, str]:
        """Return (whether the word has little meaning, how it may be omitted)."""
        ordered = text == "give" and self._order == len(self.words)
        light = ordered or entry.stem in _LIGHT or _adds_nothing(entry.stem, self._tokens, at)
        if light and entry.stem not in _LIGHT:
            return light, "noun"
        passive = self._follows_be(at)
        return light, _omissible_as(entry.stem, self._tokens, at, passive=passive)

    def _past(self, text: str, at: int) -> bool:
        """Return whether the word is a verb in the past, and not a participle."""
        if text in FORMS.finite:
            return True
        if text not in FORMS.past and not (
            text.endswith("ed") and text[-3:] != "eed" and len(text) > 4 and text.isascii()
        ):
            return False
        before = self._before(at)
        if at and self._tokens[at - 1].is_possessive:  # her preferred channel
            return False
        return (
            bool(before)
            and self._after(at) != "by"
            and not self._follows_be(at)
            and before not in _BEFORE_PARTICIPLES
        )

    def _single(self, at: int) -> bool:
        """Return whether the word is singular: a cat, a black cat, a cat called Rex."""
        article = (
            self._before(at) if self._before(at) in _ONE or at < 2 else self._tokens[at - 2].text
        )
        return article in _ONE and (
            self._after(at) in lexicon.FUNCTION_WORDS
            or not self._after(at)
            or _is_participle(self._after(at))
        )

    def _before(self, at: int) -> str:
        return self._tokens[at - 1].text if at else ""

    def _after(self, at: int) -> str:
        return self._tokens[at + 1].text if at + 1 < len(self._tokens) else ""

    def _follows_be(self, at: int, forms: Collection[str] | None = None) -> bool:
        """Return whether one of the words before is one of the forms, by default of be or get."""
        return any(
            token.text in (forms or _BE)
            for token in self._tokens[max(at - (3 if forms else 2), 0) : at]
        )


def _is_foreign(tokens: Sequence[Token]) -> bool:
    """Return whether letters show that the text is not English.

    It has a word in another script, or one with an accent and no function word of English alone.
    """
    foreign = [token for token in tokens if not token.text.isascii()]
    if not foreign:
        return False
    return any(map(_is_in_another_script, foreign)) or (
        not all(token.is_name or token.starts_sentence for token in foreign)
        and _ONLY_ENGLISH.isdisjoint(token.text for token in tokens)
    )


def _is_in_another_script(token: Token) -> bool:
    letters = [char for char in token.text if char.isalpha()]
    return bool(letters) and min(letters) > _LAST_LATIN


def _omissible_as(stem: str, tokens: Sequence[Token], at: int, *, passive: bool) -> str:
    """Return how a word may be omitted at that position: verb, deed, noun or class; "" for never.

    `passive`: the word follows a form of be.
    """
    where = _WHERE.get(stem, "")
    if where == "deed":
        return where
    if where == "class":
        return where if _text(tokens, at + 1) in _IS else ""
    if where == "naming":
        return "noun" if _naming(tokens, at) else ""
    omitted = (where == "being" and passive) or (where in _RULES and _RULES[where](tokens, at))
    return "verb" if omitted else ""


def _adds_nothing(stem: str, tokens: Sequence[Token], at: int) -> bool:
    """Return whether the word adds nothing to the words before it."""
    where = _WHERE.get(stem, "")
    return (
        (where == "named" and _named(tokens, at))
        or (where == "measured" and _measured(tokens, at))
        or (where == "sized" and any(token.text[:1] == "#" for token in tokens))
    )


def _has_object(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an object or a time follows the verb: she lives in Rome, so she is there.

    She who sings in Rome is not simply in Rome.
    """
    return (
        _text(tokens, at + 1) not in lexicon.MARKERS - lexicon.ARTICLES
        or _text(tokens, at + 2)[:1] == "#"
    )


def _timed(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a time follows: it starts at six, or is at six."""
    return _text(tokens, at + 2)[:1] == "#"


def _naming(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a name follows: her name is Ann, but not: her name is in a list."""
    return _text(tokens, at + 2) not in lexicon.MARKERS - lexicon.ARTICLES


def _named(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the name of the thing precedes it, and not its owner."""
    return (
        at > 0
        and not tokens[at - 1].is_possessive
        and tokens[at - 1].text not in lexicon.FUNCTION_WORDS
    )


def _measured(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a number and its unit precede the word."""
    return at > 1 and tokens[at - 2].text[0] == "#"


def _before_as(tokens: Sequence[Token], at: int) -> bool:
    return _text(tokens, at + 1) == "as"


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""


def _is_verbal(predicate: Sequence[Word]) -> bool:
    """Return whether a predicate after a form of be begins with a verb: is living, is called."""
    return bool(predicate) and (predicate[0].is_passive_participle or predicate[0].is_continuous)


def _is_participle(text: str) -> bool:
    return text in FORMS.participles or (
        text.endswith("ed") and not text.endswith("eed") and len(text) > 3
    )


def _singular(text: str, before: str) -> str:
    """Return a unit in the singular: 256 bits equals 256 bit."""
    return (
        text.removesuffix("s") if before[:1] == "#" and len(text) > 2 and text[0] != "#" else text
    )


_WHERE = {stem_of(word, ENGLISH): where for word, where in lexicon.OMISSIBLE.items()}
_RULES: dict[str, Callable[[Sequence[Token], int], bool]] = {
    "having": _has_object,
    "as": _before_as,
    "timed": _timed,
}
