"""Words that may go unsaid: has (and drinks) coffee, is (written) in German, the marketing (team),
is 3 m (high)."""

from collections.abc import Callable, Sequence

from memory.likeness import grammar
from memory.likeness.lexicon import ENGLISH, stem_of
from memory.likeness.pieces import Piece


def may_go_unsaid(stem: str, pieces: Sequence[Piece], at: int, *, passive: bool) -> str:
    """What says little more than an `is` or a `has` at that place: verb, deed, noun or class; ""
    for anything else.

    `passive`: it stands after a form of be.
    """
    where = _WHERE.get(stem, "")
    if where == "deed":
        return where
    if where == "class":
        return where * (_text(pieces, at + 1) in _IS)
    if where == "naming":
        return "noun" * _naming(pieces, at)
    return "verb" * (
        (where == "being" and passive) or (where in _RULES and _RULES[where](pieces, at))
    )


def goes_without_saying(stem: str, pieces: Sequence[Piece], at: int) -> bool:
    """Whether it says nothing after what stands before it."""
    where = _WHERE.get(stem, "")
    return (
        (where == "named" and _named(pieces, at))
        or (where == "measured" and _measured(pieces, at))
        or (where == "sized" and any(piece.text[:1] == "#" for piece in pieces))
    )


def _having(pieces: Sequence[Piece], at: int) -> bool:
    """A verb with its object, or a time: she lives in Rome, and is there; but she who sings in Rome
    is there for that."""
    return (
        _text(pieces, at + 1) not in grammar.MARKERS - grammar.ARTICLES
        or _text(pieces, at + 2)[:1] == "#"
    )


def _timed(pieces: Sequence[Piece], at: int) -> bool:
    """It starts at six, and is at six."""
    return _text(pieces, at + 2)[:1] == "#"


def _naming(pieces: Sequence[Piece], at: int) -> bool:
    """Her name is Ann; not where her name is in a list."""
    return _text(pieces, at + 2) not in grammar.MARKERS - grammar.ARTICLES


def _named(pieces: Sequence[Piece], at: int) -> bool:
    """Behind what it is called, and not behind whose it is."""
    return at > 0 and not pieces[at - 1].owner and pieces[at - 1].text not in grammar.SMALL


def _measured(pieces: Sequence[Piece], at: int) -> bool:
    """Behind a number and its unit."""
    return at > 1 and pieces[at - 2].text[0] == "#"


def _before_as(pieces: Sequence[Piece], at: int) -> bool:
    return _text(pieces, at + 1) == "as"


def _text(pieces: Sequence[Piece], at: int) -> str:
    return pieces[at].text if at < len(pieces) else ""


_IS = ("is", "are", "was", "were")
_WHERE = {stem_of(word, ENGLISH): where for word, where in grammar.UNSAID.items()}
_RULES: dict[str, Callable[[Sequence[Piece], int], bool]] = {
    "having": _having,
    "as": _before_as,
    "timed": _timed,
}
