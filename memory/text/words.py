"""What a text's words are to the full-text index, and what more of it is indexed so that its parts
are found too.

unicode61 leaves `userName` whole, and a sentence in Chinese. So such a record has a second text to
find, its `parts`: there
identifiers are taken apart where the case changes or a digit meets a letter, Chinese, Japanese,
Korean, Thai, Lao, Burmese and
Khmer letter by letter, letters are plain ones (memory/text/folding.py), and numbers have no separators.
What unicode61 takes apart
by itself, `user_name` and `user-name` and an e-mail address, needs none.
"""

import re
import threading
from collections.abc import Iterable
from functools import cache

import apsw

from memrelay.memory.text.folding import HIDDEN, folded, hidden, is_hidden, normal

# a token between the parts of two words, so that no phrase is found across them; of private use
BREAK = "\U0010fffd"
MOST_HUMPS, MOST_DIGITS = (
    16,
    4,
)  # places to take an identifier apart; what has more is a hash or a key
_HUMP, _DIGIT = "\x01", "\x02"  # marks of such places; unicode61 takes neither for a part of a word


def _class(chars: Iterable[int]) -> str:
    """The inside of a pattern's [...]."""
    ranges: list[list[int]] = []
    for char in chars:
        if ranges and ranges[-1][1] == char - 1:
            ranges[-1][1] = char
        else:
            ranges.append([char, char])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_CJK = (
    "\u0e01-\u0eff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff\u3105-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Burmese and Khmer letters, each with the marks that follow it
_SYLLABLES = "\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3"
_LETTER = re.compile(f"[{_CJK}{_SYLLABLES}]")
_AROUND_LETTERS = re.compile(
    f"(?=[{_CJK}{hidden(_SYLLABLES)}])|(?<=[{_CJK}])|(?<=[{HIDDEN}])(?=[0-9A-Za-z])"
)
_BETWEEN = re.compile(rf"[^\w.@\-\u0300-\u036f{HIDDEN}{_HUMP}{_DIGIT}]+")

_BETWEEN_WORDS = re.compile(rf"[^\w\u0300-\u036f{HIDDEN}{_HUMP}{_DIGIT}]+|_+")


def _places(upper: str, lower: str, letter: str) -> re.Pattern[str]:
    """Finds where a word is taken apart. It begins with what is rare in plain text, which makes it
    cost 10 ns a character."""
    return re.compile(
        rf"[0-9{upper}](?:(?<={lower}.)|(?<=[0-9])(?={letter})|(?<=[{upper}].)(?:(?<=[0-9])|(?={lower})))"
    )


_ASCII_PLACES = _places("A-Z", "[a-z]", "[A-Za-z]")
# Whether there are any, found in half the time: of each character only its kind, where one byte is
# searched for.
_KINDS = bytes(
    ord(
        ","
        if chr(code) in ",.'"
        else " "
        if not chr(code).isalnum()
        else "0"
        if chr(code).isdecimal()
        else "A"
        if chr(code).isupper()
        else "a"
    )
    for code in range(128)
) + bytes(128)
_0, _A = b"0A"  # as numbers, which are searched for in a tenth of the time
_CAPITAL = re.compile(rb"A(?:(?<=aA)|(?<=AA)(?=a))").search
_NUMBER = re.compile(rb"0(?:(?<=[aA]0)|(?=[aA]))").search
_GROUP = re.compile(rb",(?<=0,)000(?!0)").search
# Numbers in groups of three digits: 1,000,000.5 and 1'000 and 1 000 with a space that does not
# break; 1.000,50.
_SEPARATORS = ",'\u2019\u00a0\u2009\u202f"
_MAY_BE_GROUPED = re.compile(f"[0-9][{_SEPARATORS}][0-9]")
_GROUPED = re.compile(
    rf"(?<![0-9.,])[0-9]{{1,3}}(?:([{_SEPARATORS}])[0-9]{{3}}(?:\1[0-9]{{3}})*(?:[.,][0-9]+)?"
    r"|(?:\.[0-9]{3})+,[0-9]{1,2})(?![0-9]|[.,][0-9])"
)


@cache
def _places_beyond_ascii() -> re.Pattern[str]:
    """In the scripts that have cases, but for rare ones. Made by the first text that needs it."""
    upper = _class(char for char in range(0x2000) if chr(char).isupper())
    return _places(upper, rf"[^\W\d_{upper}]", r"[^\W\d_]")


class _Tokenizer(threading.local):
    """SQLite's own, so that nothing differs; one a thread, since it keeps a buffer."""

    def __init__(self) -> None:
        self.split = apsw.Connection(":memory:").fts5_tokenizer(
            "unicode61", ["remove_diacritics", "2"]
        )


_tokenizer = _Tokenizer()


def tokens(text: str) -> list[str]:
    """The words of a text as the index has them, in order: folded, without accents. A microsecond
    for a sentence."""
    found = _tokenizer.split(
        text.encode(errors="replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found  # type: ignore[return-value]


def plain_tokens(text: str) -> list[str]:
    """The words of a text in plain letters, those in scripts with marks whole, as its parts have
    them."""
    return tokens(folded(text))


def parts_of(content: str) -> str | None:
    """What is indexed of a content beside itself; None where there is nothing to take apart, as in
    most."""
    if content.isascii():
        if not _has_ascii_places(content):
            return None
    elif (plain := _unlike(content)) is not None:
        marked = _marked(
            _ungrouped(plain)
        )  # all of it, so that phrases are found whatever scripts they mix
        return f" {BREAK} ".join((_apart(marked), *_wholes(marked)))
    elif _places_beyond_ascii().search(content) is None and not _numbers(content):
        return None
    words = [
        word
        for near in _marked(content).split()
        if _HUMP in near or _DIGIT in near
        for word in _BETWEEN.split(near)
    ]
    pieces = (apart for word in words if " " in (apart := _spaced(word)))
    return f" {BREAK} ".join((*pieces, *_numbers(content))) or None


def _unlike(text: str) -> str | None:
    """The text in plain letters, where some of its words are others then, or some of its letters
    are words."""
    plain = folded(text)
    if plain is text:
        return plain if in_letters(text) else None
    unlike = len(plain) >= len(text) or in_letters(text) or tokens(plain) != tokens(text)
    return (
        plain if unlike else None
    )  # shorter, it may lack signs alone, as those that emoji are made of


def _numbers(content: str) -> list[str]:
    """Those in groups, in digits alone: most texts have nothing that may be one."""
    return (
        list(map(_digits, _GROUPED.finditer(content)))
        if _MAY_BE_GROUPED.search(content) is not None
        else []
    )


def _has_ascii_places(content: str) -> bool:
    """The same as whether `_ASCII_PLACES` finds any, or something that may be a number in
    groups."""
    kinds = content.encode().translate(_KINDS)
    return (_A in kinds and _CAPITAL(kinds) is not None) or (
        _0 in kinds and (_NUMBER(kinds) is not None or _GROUP(kinds) is not None)
    )


def _ungrouped(text: str) -> str:
    """With numbers of a thousand or more in digits alone: `1000.50` for `1,000.50`."""
    return _GROUPED.sub(_digits, text)


def _digits(number: re.Match[str]) -> str:
    return number[0].replace(number[1] or ".", "")


def taken_apart(text: str) -> str | None:
    """All words of a query as `parts_of` has them; None where that is `text` itself."""
    return None if parts_of(text) is None else _apart(_marked(_ungrouped(folded(text))))


def in_letters(text: str) -> bool:
    """Whether some of it is Chinese, Japanese, Korean, Thai, Lao, Burmese or Khmer, where a letter
    is a word."""
    return not text.isascii() and _LETTER.search(text) is not None


def in_parts(text: str) -> bool:
    """Whether some of it is found in parts alone: all records that hold it have it there, and
    unicode61 has it otherwise."""
    return in_letters(text) or is_hidden(folded(text))


def _apart(marked: str) -> str:
    """All of a text, with spaces for its marks."""
    if _HUMP not in marked and _DIGIT not in marked:
        return " ".join([_BETWEEN.sub(" ", near) for near in marked.split()])
    return " ".join([" ".join(map(_spaced, _BETWEEN.split(near))) for near in marked.split()])


def _wholes(marked: str) -> list[str]:
    """Identifiers as a whole, in plain letters and without what stands beside them: the index of
    the content has neither."""
    words = _BETWEEN_WORDS.split(marked) if _HUMP in marked else ()
    return [
        _spaced(word.replace(_HUMP, "")) for word in words if _HUMP in word and " " in _spaced(word)
    ]


def _marked(text: str) -> str:
    """The text with a mark where a word is taken apart, and spaces around letters that are
    words."""
    if text.isascii():
        return _ASCII_PLACES.sub(_mark, text)
    text = normal(
        "NFKC", text
    )  # letters in half and full width, and of several code points, are the same
    if in_letters(text) or is_hidden(text):
        text = _AROUND_LETTERS.sub(" ", text)
    return _places_beyond_ascii().sub(_mark, text)


def _mark(place: re.Match[str]) -> str:
    text, at, char = place.string, place.start(), place[0]
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if char.isdecimal():
        return (_DIGIT if before.isalpha() else "") + char + (_DIGIT if after.isalpha() else "")
    plural = after == "s" and before.isupper() and not text[at + 2 : at + 3].isalnum()  # of URLs
    return char if plural or not before.isalpha() else _HUMP + char


def _spaced(word: str) -> str:
    """A word with spaces for its marks, or without them where they are too many."""
    space = " " if word.count(_HUMP) <= MOST_HUMPS and word.count(_DIGIT) <= MOST_DIGITS else ""
    return word.replace(_HUMP, space).replace(_DIGIT, space)
