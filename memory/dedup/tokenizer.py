"""Splits a text into words, numbers, names and signs, and expands contractions."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.text.stopwords import STOP_WORDS
from memrelay.memory.text.words import in_letters


class Piece(NamedTuple):
    """A word or a sign."""

    text: str  # in lower case
    name: bool = False  # a name: capitalized inside a sentence, or an identifier
    head: bool = False  # capitalized at the start of a sentence, so possibly a name
    owner: bool = False  # ends with a possessive 's


_PIECE = re.compile(
    r"(?<!\w)-\d[\w.,:/-]*|(?<![\w.])-?\.\d\w*|\w[\w.,@:/+#'&-]*|!(?=\w)"
    r"|[^\w\s\"'()\[\]{}.,;:!?*~`#@/\\|\u060c\u061b\u06d4\u0964\u0965\u2022\u2026\u3001\u3002-]"
)
_PARTED = re.compile(r"[^\W\d_]+(?:[-/,:&][^\W\d_]+)+")
_LETTERS_WITH_DOTS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_IDENTIFIER = re.compile(r"[@_]|\w[.]\w|/|\w#\w|\w:\w")
_ELIDED = re.compile(
    r"(?:l|d|qu|j|s|c|m|t|jusqu|lorsqu|puisqu|n|un|all|dell|nell|sull|dall|quell)'(?=[^\W\d_]{2})"
)
_ENDS_SENTENCE = re.compile(r"[.!?:;\u06d4\u0964\u3002\"-]\s*$")
_TITLES = frozenset(("dr", "mr", "mrs", "ms", "prof", "st", "no", "vs", "herr", "frau"))
_SHORT = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_WITH_IS = frozenset(
    ("it", "that", "there", "he", "she", "what", "who", "where", "here", "how", "let")
)
_SIGNS = {
    "\u274c": "not",
    "\u2717": "not",
    "\u2718": "not",
    "!": "not",
    "&": "and",
    "%": "percent",
    **dict.fromkeys(
        "\u2705\u2713\u2714\U0001f642\U0001f600\U0001f60a\U0001f44d\U0001f389\u2728", ""
    ),
}


def pieces_of(text: str) -> list[Piece]:
    """Return the pieces of a normalized text."""
    found: list[Piece] = []
    end = 0
    shouted = text.isupper()
    for match in _PIECE.finditer(text):
        word = match[0].rstrip(".,:/&-") or match[0]
        first = not found or (
            found[-1].text not in _TITLES
            and _ENDS_SENTENCE.search(text, end, match.start()) is not None
        )
        if word.startswith((".", "-.")):  # .5 is 0.5
            found.append(Piece(word.replace(".", "0.").lower()))
        elif not (word.isascii() and word.isalpha()):
            found += _apart(word, first)
        elif word.isupper() and not shouted and _is_code(word, first):
            found.append(Piece(f"#{word}"))
        else:
            found.append(
                Piece(word.lower(), not first and word[0].isupper(), first and word[0].isupper())
            )
        end = match.start() + len(word)
    return _without_titles([piece for piece in found if piece.text])


def _is_code(word: str, first: bool) -> bool:
    """Return whether capitals form a code: service A, the US. Most words in capitals do not."""
    return (
        word != "I"
        and not (first and word == "A")
        and (len(word) == 1 or word.lower() in STOP_WORDS["english"])
    )


def _apart(word: str, first: bool) -> Iterator[Piece]:
    """Yield the pieces of a word with other characters than ASCII letters."""
    capital = word[:1].isupper()
    lower = word.lower()
    if in_letters(word):
        yield from _letter_by_letter(lower)
    elif lower in _SIGNS:
        yield from [Piece(_SIGNS[lower])] if _SIGNS[lower] else []
    elif "'" in lower:
        yield from _contraction(word, first)
    elif _LETTERS_WITH_DOTS.fullmatch(lower):
        yield Piece(lower.replace(".", ""), capital and not first)
    elif _PARTED.fullmatch(lower):
        for number, part in enumerate(re.split(r"[-/,:&]", word)):
            yield Piece(
                part.lower(),
                part[0].isupper() and not (first and not number),
                first and not number and capital,
            )
    elif (
        lower[-1:].isalpha()
        and not any(char.isdigit() for char in lower)
        and _IDENTIFIER.search(lower)
    ):
        yield Piece(lower, name=True)
    else:
        yield Piece(lower, capital and not first, capital and first)


def _letter_by_letter(word: str) -> Iterator[Piece]:
    """Yield CJK letters one by one, because their scripts have no spaces."""
    rest = ""
    for char in word:
        if char.isalpha() and in_letters(char):
            if rest:
                yield Piece(rest)
            yield Piece(char)
            rest = ""
        else:
            rest += char
    if rest:
        yield Piece(rest)


def _contraction(word: str, first: bool) -> Iterator[Piece]:
    """Expand a contraction: `doesn't`, `user's` as a possessive, the article in `l'ufficio`."""
    capital = word[0].isupper()
    lower = word.lower().rstrip("'")
    elided = _ELIDED.match(lower)
    stem, short = next(
        ((lower[: -len(end)], long) for end, long in _SHORT.items() if lower.endswith(end)),
        ("", ""),
    )
    if lower.endswith("n't"):
        yield Piece({"can't": "can", "won't": "will", "shan't": "shall"}.get(lower, lower[:-3]))
        yield Piece("not")
    elif short:
        yield Piece(stem, capital and not first, capital and first)
        yield Piece(short)
    elif lower.endswith("'s") and lower[:-2] in _WITH_IS:
        yield Piece(lower[:-2])
        yield Piece("is")
    elif elided:
        rest = word[elided.end() :]
        yield Piece(elided[0][:-1])
        yield Piece(rest.lower(), rest[0].isupper())
    else:
        owner = lower.endswith("'s") or word.endswith("'")
        yield Piece(
            lower.removesuffix("'s").replace("'", ""),
            capital and not first,
            capital and first,
            owner,
        )


def _without_titles(found: list[Piece]) -> list[Piece]:
    """Ignore capitals if most words have one."""
    capitals = sum(piece.name or piece.head for piece in found)
    if capitals <= 3 or capitals * 5 <= len(found) * 3:
        return found
    return [
        piece._replace(name=False, head=False) if piece.text.isalpha() else piece for piece in found
    ]
