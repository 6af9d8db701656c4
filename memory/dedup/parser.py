"""Parses a short fact: its content words in order, and the features of its function words.

Some words may be omitted without a difference: has (and drinks) coffee, is (written) in German,
the marketing (team), is 3 m (high).
"""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from memrelay.memory.dedup import function_words as grammar
from memrelay.memory.dedup.irregular import FORMS
from memrelay.memory.dedup.lexicon import ENGLISH, PHRASES, Known, known, stem_of, stems_of
from memrelay.memory.dedup.numbers import WEAK, with_numbers
from memrelay.memory.dedup.phrases import HAVING
from memrelay.memory.dedup.tokenizer import Piece, pieces_of
from memrelay.memory.text.stopwords import STOP_WORDS

LONGEST = 2000  # characters; longer facts are not parsed and match only if equal
MOST_WORDS = 120  # content words

_IS = ("is", "are", "was", "were")
_DROPPED = ("a", "an", "the")
_ONE = ("a", "an", WEAK)
_BEFORE_NUMBERS = (
    "over",
    "above",
    "under",
    "than",
    "about",
    "around",
    "roughly",
    "approximately",
    "circa",
)
_EVERY = ("every", "each")
_LIGHT = stems_of(grammar.LIGHT)
_BE = frozenset(word for word, small in grammar.SMALL.items() if small.tenses) | frozenset(
    ("be", "been", "get", "gets", "got", "getting")
)
_PASSIVE = frozenset(
    ("is", "are", "am", "was", "were", "be", "been", "being", "get", "gets", "got")
)
# finite verbs, which no order contains
_FINITE = frozenset(
    ("is", "are", "was", "were", "has", "had", "will", "should", "must", "does", "did")
)
_BEFORE_ORDERS = frozenset(("please", "always", "never", "do", "not", "also", "just"))
_BEFORE_PARTICIPLES = (
    grammar.MARKERS | grammar.ARTICLES | grammar.AND | {"his", "her", "their", "our", "my", "your"}
)


class Word(NamedTuple):
    """A content word."""

    text: str
    known: Known
    marker: str  # the preposition or `not` before it; `of` also for an owner
    name: bool
    head: bool  # capitalized at the start of a sentence, so possibly a name
    light: bool  # has little meaning
    # verb, deed, noun or class if the word may be omitted next to an `is` or a `has`; else ""
    unsaid: str
    past: bool  # a verb in the past
    being: bool  # after a form of be
    single: bool  # after `a` or `one`: a cat is not cats
    counted: bool  # after a number: a unit, or the things that are counted
    denied: bool  # the first word after a negation: not with Bob

    @property
    def number(self) -> bool:
        """Whether it is a number, a time, a date or a code."""
        return self.text[0] == "#"

    @property
    def done(self) -> bool:
        """Whether it is a participle after a form of be."""
        return self.being and _is_participle(self.text)

    @property
    def going(self) -> bool:
        """Whether it is in the continuous form: is reading."""
        return self.being and self.text.endswith("ing")

    @property
    def coming(self) -> bool:
        """Whether it refers to the future."""
        return self.text in ("next", "tomorrow", "tonight", "soon")


class Reading(NamedTuple):
    """A parsed fact."""

    words: tuple[Word, ...]
    negations: int
    said: frozenset[str]  # modes, persons and signals, each as `kind:value`
    tenses: frozenset[str]  # of its auxiliaries: past, perfect, now, doing, will
    joins: int  # the number of `and`, `or` and `but`
    passive: bool  # `by` after a participle
    order: int  # the place of the verb of an order; -1 for none
    near: tuple[str, ...]  # all words without articles; facts with the same ones are equal


@lru_cache(512)  # about 2 MB for facts of 100 characters
def read(text: str) -> Reading | None:
    """Parse a normalized text. Returns None if it is too long."""
    if len(text) > LONGEST:
        return None
    pieces = with_numbers(_without_phrases(pieces_of(text)))
    if text.rstrip().endswith("?"):
        pieces.append(Piece("?"))
    reader = _Reader(pieces)
    reader.read()
    return reader.reading() if len(reader.words) <= MOST_WORDS else None


def _without_phrases(pieces: list[Piece]) -> list[Piece]:
    """Replace phrases by their plain words."""
    found: list[Piece] = []
    at = 0
    texts = [piece.text for piece in pieces]
    while at < len(pieces):
        beginning = PHRASES.get(" ".join(texts[at : at + 2])) or PHRASES.get(texts[at])
        if beginning is None:
            found.append(pieces[at])
            at += 1
            continue
        fitting = (
            phrase
            for phrase in beginning
            if phrase.stands(texts, at)
            and not any(piece.name or piece.owner for piece in pieces[at : at + len(phrase.words)])
        )
        phrase = next(fitting, None)
        found += [Piece(word) for word in phrase.instead] if phrase else [pieces[at]]
        at += len(phrase.words) if phrase else 1
    return found


class _Reader:
    """Parses the pieces of a text in one pass."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._language = grammar.language_of(
            frozenset(piece.text for piece in pieces if not piece.name)
        )
        self._small = (
            frozenset[str]() if self._language == "english" else STOP_WORDS[self._language]
        )
        self.words: list[Word] = []
        self._marker = ""  # the present marker
        self._filled = False  # whether a word follows it already
        self._negations, self._participle, self._order, self._denied = 0, False, -1, False
        self._said: set[str] = set()
        self._tenses: set[str] = set()

    def read(self) -> None:
        order = next(
            (at for at, piece in enumerate(self._pieces) if piece.text not in _BEFORE_ORDERS), -1
        )
        for at, piece in enumerate(self._pieces):
            if (
                at == order
                and piece.text in grammar.ORDERS
                and all(one.text not in _FINITE for one in self._pieces[at:])
            ):
                self._said.add("mode:please")
                self._order = len(self.words)
            is_name = piece.name and (self._language != "english" or piece.text in grammar.NAMES)
            if is_name or not self._small_word(piece.text, at):
                self._word(piece, at)

    def reading(self) -> Reading:
        passive = any(word.marker == "by" for word in self.words)
        near = tuple(
            _singular(piece.text, self._before(at))
            for at, piece in enumerate(self._pieces)
            if piece.text not in _DROPPED
        )
        joins = sum(piece.text in grammar.JOINS for piece in self._pieces)
        order = self._order if self._order < len(self.words) else -1
        return Reading(
            tuple(self.words),
            self._negations,
            frozenset(self._said),
            frozenset(self._tenses),
            joins,
            passive,
            order,
            near,
        )

    def _small_word(self, text: str, at: int) -> bool:
        """Apply the effect of a function word. Returns False if it is a content word."""
        small = grammar.SMALL.get(text)
        if small is None and text not in self._small:
            return False
        after = self._after(at)
        if after[:1] == "#" and text in _EVERY:
            self._marker, self._filled = "every", False
            return True
        if after[:1] == "#" and text in _BEFORE_NUMBERS:
            self._said |= (
                {"signal:above"}
                if text in ("over", "above")
                else {"signal:below"}
                if text == "under"
                else set()
            )
            return True
        if small is not None:
            self._said.update(small.said)
            self._tenses.update(small.tenses if text not in HAVING else [self._having(text, at)])
            self._negations += small.denies
            self._denied |= small.denies
        # `a` is an article in English, and means `to` in other languages
        if small is not None and small.marker and (text != "a" or self._language != "english"):
            self._marker, self._filled = self._told(small.marker, after), False
        elif self._filled and text not in grammar.AND:
            self._marker = ""
        return True

    def _having(self, text: str, at: int) -> str:
        """Return whether `has`, `had` or `have` forms a perfect, or denotes possession."""
        after = [piece.text for piece in self._pieces[at + 1 : at + 4]]
        if "been" in after or any(_is_participle(word) or word in FORMS.timeless for word in after):
            return "perfect"
        return "past" if text == "had" else "has"

    def _told(self, marker: str, after: str) -> str:
        """Return the marker; `by` marks the actor only after a participle: not in by bus."""
        return (
            "via"
            if marker == "by"
            and (after[:1] == "#" or after in grammar.MEANS or not self._participle)
            else marker
        )

    def _word(self, piece: Piece, at: int) -> None:
        text = piece.text
        if text == "used" and self._after(at) == "to" and not self._beside_be(at):
            self._tenses.add("past")
            return
        what = Known(text) if text[0] == "#" else known(text, self._language)
        if text in FORMS.timeless or text == "got":
            self._tenses.add("perfect")
        elif text == "born":  # `was born in` means `is from`
            self._tenses.discard("past")
        self._participle |= _is_participle(text)
        light, unsaid = self._weight(text, what, at)
        self.words.append(
            Word(
                text,
                what,
                marker="of" if piece.owner and not self._marker else self._marker,
                name=piece.name,
                head=piece.head,
                light=light,
                unsaid=unsaid,
                past=self._past(text, at),
                being=self._beside_be(at, _PASSIVE),
                single=self._single(at),
                counted=self._before(at)[:1] == "#" and text[0] != "#",
                denied=self._denied,
            )
        )
        self._filled, self._denied = True, False

    def _weight(self, text: str, what: Known, at: int) -> tuple[bool, str]:
        """Return (whether the word has little meaning, how it may be omitted)."""
        ordered = text == "give" and self._order == len(self.words)
        light = ordered or what.stem in _LIGHT or goes_without_saying(what.stem, self._pieces, at)
        if light and what.stem not in _LIGHT:
            return light, "noun"
        passive = self._beside_be(at)
        return light, may_go_unsaid(what.stem, self._pieces, at, passive=passive)

    def _past(self, text: str, at: int) -> bool:
        """Return whether the word is a verb in the past, and not a participle."""
        if text in FORMS.finite:
            return True
        if text not in FORMS.past and not (
            text.endswith("ed") and text[-3:] != "eed" and len(text) > 4 and text.isascii()
        ):
            return False
        before = self._before(at)
        if at and self._pieces[at - 1].owner:  # her preferred channel
            return False
        return (
            bool(before)
            and self._after(at) != "by"
            and not self._beside_be(at)
            and before not in _BEFORE_PARTICIPLES
        )

    def _single(self, at: int) -> bool:
        """Return whether the word is singular: a cat, a black cat, a cat called Rex."""
        article = (
            self._before(at) if self._before(at) in _ONE or at < 2 else self._pieces[at - 2].text
        )
        return article in _ONE and (
            self._after(at) in grammar.SMALL
            or not self._after(at)
            or _is_participle(self._after(at))
        )

    def _before(self, at: int) -> str:
        return self._pieces[at - 1].text if at else ""

    def _after(self, at: int) -> str:
        return self._pieces[at + 1].text if at + 1 < len(self._pieces) else ""

    def _beside_be(self, at: int, forms: Collection[str] | None = None) -> bool:
        """Return whether one of the words before is one of the forms, by default of be or get."""
        return any(
            piece.text in (forms or _BE)
            for piece in self._pieces[max(at - (3 if forms else 2), 0) : at]
        )


def may_go_unsaid(stem: str, pieces: Sequence[Piece], at: int, *, passive: bool) -> str:
    """Return how a word may be omitted at that position: verb, deed, noun or class; "" for never.

    `passive`: the word follows a form of be.
    """
    where = _WHERE.get(stem, "")
    if where == "deed":
        return where
    if where == "class":
        return where if _text(pieces, at + 1) in _IS else ""
    if where == "naming":
        return "noun" if _naming(pieces, at) else ""
    omitted = (where == "being" and passive) or (where in _RULES and _RULES[where](pieces, at))
    return "verb" if omitted else ""


def goes_without_saying(stem: str, pieces: Sequence[Piece], at: int) -> bool:
    """Return whether the word adds nothing to the words before it."""
    where = _WHERE.get(stem, "")
    return (
        (where == "named" and _named(pieces, at))
        or (where == "measured" and _measured(pieces, at))
        or (where == "sized" and any(piece.text[:1] == "#" for piece in pieces))
    )


def _having(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether an object or a time follows the verb: she lives in Rome, so she is there.

    She who sings in Rome is not simply in Rome.
    """
    return (
        _text(pieces, at + 1) not in grammar.MARKERS - grammar.ARTICLES
        or _text(pieces, at + 2)[:1] == "#"
    )


def _timed(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a time follows: it starts at six, or is at six."""
    return _text(pieces, at + 2)[:1] == "#"


def _naming(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a name follows: her name is Ann, but not: her name is in a list."""
    return _text(pieces, at + 2) not in grammar.MARKERS - grammar.ARTICLES


def _named(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether the name of the thing precedes it, and not its owner."""
    return at > 0 and not pieces[at - 1].owner and pieces[at - 1].text not in grammar.SMALL


def _measured(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a number and its unit precede the word."""
    return at > 1 and pieces[at - 2].text[0] == "#"


def _before_as(pieces: Sequence[Piece], at: int) -> bool:
    return _text(pieces, at + 1) == "as"


def _text(pieces: Sequence[Piece], at: int) -> str:
    return pieces[at].text if at < len(pieces) else ""


def _is_participle(text: str) -> bool:
    return text in FORMS.participles or (
        text.endswith("ed") and not text.endswith("eed") and len(text) > 3
    )


def _singular(text: str, before: str) -> str:
    """Return a unit in the singular: 256 bits equals 256 bit."""
    return (
        text.removesuffix("s") if before[:1] == "#" and len(text) > 2 and text[0] != "#" else text
    )


_WHERE = {stem_of(word, ENGLISH): where for word, where in grammar.UNSAID.items()}
_RULES: dict[str, Callable[[Sequence[Piece], int], bool]] = {
    "having": _having,
    "as": _before_as,
    "timed": _timed,
}
