"""Split texts into words as the full-text index does, and derive the parts that are indexed in
addition.

unicode61 keeps `userName` and a Chinese sentence whole. So such a record has a second searchable
text, its `parts`:
- Identifiers are split where the case changes or a digit meets a letter.
- Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer are split into letters.
- Letters are folded (memrelay/memory/search/text/folding.py).
- Numbers have no separators.
- Emoji are words (memrelay/memory/search/text/emoji.py).
- In JSON, a word after an escape such as \\n is a word without its letter.

Texts that unicode61 splits itself need no parts: `user_name`, `user-name`, an email address.
"""

import re
import threading
from collections.abc import Iterable
from functools import cache

import apsw

from memrelay.memory.search.text.emoji import emoji_words
from memrelay.memory.search.text.folding import HIDDEN, folded, hidden, is_hidden, normal

# A private-use token between the parts of two words, so that no phrase matches across them.
BREAK = "\U0010fffd"
# Maximum split positions in an identifier. A word with more is a hash or a key.
MOST_HUMPS, MOST_DIGITS = 16, 4
# Marks of split positions. unicode61 treats neither as part of a word.
_HUMP, _DIGIT = "\x01", "\x02"


def _character_class(chars: Iterable[int]) -> str:
    """Return the character class of the code points, for the inside of [...]."""
    ranges: list[list[int]] = []
    for char in chars:
        if ranges and ranges[-1][1] == char - 1:
            ranges[-1][1] = char
        else:
            ranges.append([char, char])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_UNSPACED = (
    "\u0e01-\u0eff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff\u3105-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Burmese and Khmer letters, each followed by its marks.
_SYLLABLES = "\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3"
_BETWEEN = re.compile(rf"[^\w.@\-\u0300-\u036f{HIDDEN}{_HUMP}{_DIGIT}]+")

_BETWEEN_WORDS = re.compile(rf"[^\w\u0300-\u036f{HIDDEN}{_HUMP}{_DIGIT}]+|_+")


def _split_positions(upper: str, lower: str, letter: str) -> re.Pattern[str]:
    """Return the pattern of split positions.

    It begins with characters that are rare in plain text, so it costs 10 ns per character.
    """
    return re.compile(
        rf"[0-9{upper}](?:(?<={lower}.)|(?<=[0-9])(?={letter})"
        rf"|(?<=[{upper}].)(?:(?<=[0-9])|(?={lower})))"
    )


_ASCII_PLACES = _split_positions("A-Z", "[a-z]", "[A-Za-z]")
# Tests for split positions in half the time: each character becomes its kind, and single bytes are
# searched.
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
# Integers, because searching bytes for an integer takes a tenth of the time.
_0, _A = b"0A"
_CAPITAL = re.compile(rb"A(?:(?<=aA)|(?<=AA)(?=a))").search
_NUMBER = re.compile(rb"0(?:(?<=[aA]0)|(?=[aA]))").search
_GROUP = re.compile(rb",(?<=0,)000(?!0)").search
# Numbers in groups of three digits: 1,000,000.5 and 1'000, 1 000 with a no-break space, 1.000,50.
_SEPARATORS = ",'\u2019\u00a0\u2009\u202f"
_MAY_BE_GROUPED = re.compile(f"[0-9][{_SEPARATORS}][0-9]")
_GROUPED = re.compile(
    rf"(?<![0-9.,])[0-9]{{1,3}}(?:([{_SEPARATORS}])[0-9]{{3}}(?:\1[0-9]{{3}})*(?:[.,][0-9]+)?"
    r"|(?:\.[0-9]{3})+,[0-9]{1,2})(?![0-9]|[.,][0-9])"
)


# Escapes of JSON for control characters, before a word: unicode61 reads \\nword as nword.
_ESCAPE = re.compile(r"\\[bfnrt](?=[^\W_])")
_ESCAPED_WORD = re.compile(r"\\[bfnrt]([^\W_]\w*)")


@cache
def _letter_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return (pattern of a letter that counts as a word, pattern of the places around them).

    The first text that is not ASCII builds them in 4 ms.
    """
    return re.compile(f"[{_UNSPACED}{_SYLLABLES}]"), re.compile(
        f"(?=[{_UNSPACED}{hidden(_SYLLABLES)}])|(?<=[{_UNSPACED}])|(?<=[{HIDDEN}])(?=[0-9A-Za-z])"
    )


@cache
def _unicode_positions() -> re.Pattern[str]:
    """Return the pattern for scripts with case, except rare ones. The first text that needs it
    builds it.
    """
    upper = _character_class(char for char in range(0x2000) if chr(char).isupper())
    return _split_positions(upper, rf"[^\W\d_{upper}]", r"[^\W\d_]")


class _Tokenizer(threading.local):
    """SQLite's own tokenizer, so that results are identical. One per thread, because it has a
    buffer.
    """

    def __init__(self) -> None:
        self.split = apsw.Connection(":memory:").fts5_tokenizer(
            "unicode61", ["remove_diacritics", "2"]
        )


_tokenizer = _Tokenizer()


def tokens(text: str) -> list[str]:
    """Return the words of a text in order, as the index has them: folded, without accents.

    It takes a microsecond for a sentence.
    """
    found = _tokenizer.split(
        text.encode(errors="replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found  # type: ignore[return-value]


def plain_tokens(text: str) -> list[str]:
    """Return the words of a text in plain letters, as its parts have them. Words in scripts with
    marks stay whole.
    """
    return tokens(folded(text))


def parts_of(content: str) -> str | None:
    """Return the text that is indexed in addition to a content, None if there is
    none, as for most.
    """
    if "\\" in content and (words := _ESCAPED_WORD.findall(content)):
        rest = parts_of(_ESCAPE.sub(" ", content))
        return f" {BREAK} ".join(filter(None, (rest, *map(folded, words))))
    if content.isascii():
        return _split_words(content) if _has_ascii_places(content) else None
    parts = _parts_of_letters(content)
    emoji = " ".join(emoji_words(content))
    return f" {BREAK} ".join(filter(None, (parts, emoji))) or None


def _parts_of_letters(content: str) -> str | None:
    """Return the parts of a text that is not ASCII, without its emoji."""
    if (plain := _fold_if_different(content)) is not None:
        # The whole text, so that phrases match in any mix of scripts.
        marked = _marked(_ungrouped(plain))
        return f" {BREAK} ".join((_split(marked), *_whole_identifiers(marked)))
    if _unicode_positions().search(content) is None and not _ungrouped_numbers(content):
        return None
    return _split_words(content)


def _split_words(content: str) -> str | None:
    """Return the words with split positions, split, and the grouped numbers."""
    words = [
        word
        for chunk in _marked(content).split()
        if _HUMP in chunk or _DIGIT in chunk
        for word in _BETWEEN.split(chunk)
    ]
    pieces = (split for word in words if " " in (split := _spaced(word)))
    return f" {BREAK} ".join((*pieces, *_ungrouped_numbers(content))) or None


def _fold_if_different(text: str) -> str | None:
    """Return the folded text if folding changes its words or it has letters that are words, else
    None.
    """
    plain = folded(text)
    if plain is text:
        return plain if in_letters(text) else None
    is_different = len(plain) >= len(text) or in_letters(text) or tokens(plain) != tokens(text)
    # A shorter text may only lack signs, such as those that build emoji.
    return plain if is_different else None


def _ungrouped_numbers(content: str) -> list[str]:
    """Return the grouped numbers in digits only. Most texts have none."""
    return (
        list(map(_digits, _GROUPED.finditer(content)))
        if _MAY_BE_GROUPED.search(content) is not None
        else []
    )


def _has_ascii_places(content: str) -> bool:
    """Return whether an ASCII text has split positions or may have a grouped number."""
    kinds = content.encode().translate(_KINDS)
    return (_A in kinds and _CAPITAL(kinds) is not None) or (
        _0 in kinds and (_NUMBER(kinds) is not None or _GROUP(kinds) is not None)
    )


def _ungrouped(text: str) -> str:
    """Return the text with grouped numbers in digits only: `1000.50` for `1,000.50`."""
    return _GROUPED.sub(_digits, text)


def _digits(number: re.Match[str]) -> str:
    return number[0].replace(number[1] or ".", "")


def taken_apart(text: str) -> str | None:
    """Return all words of a query as `parts_of` has them, None if they are the
    same as in `text`.
    """
    parts = _parts_of_letters(text) if not text.isascii() else parts_of(text)
    return None if parts is None else _split(_marked(_ungrouped(folded(text))))


def in_letters(text: str) -> bool:
    """Return whether a text has Chinese, Japanese, Korean, Thai, Lao, Burmese or Khmer letters,
    which count as words.
    """
    return not text.isascii() and _letter_patterns()[0].search(text) is not None


def in_parts(text: str) -> bool:
    """Return whether some of a text matches only in parts: all records with it have it there."""
    return in_letters(text) or is_hidden(folded(text))


def _split(marked: str) -> str:
    """Return the whole text with spaces in place of its marks."""
    if _HUMP not in marked and _DIGIT not in marked:
        return " ".join([_BETWEEN.sub(" ", chunk) for chunk in marked.split()])
    return " ".join([" ".join(map(_spaced, _BETWEEN.split(chunk))) for chunk in marked.split()])


def _whole_identifiers(marked: str) -> list[str]:
    """Return whole identifiers in plain letters, without adjacent characters. The index of contents
    lacks both.
    """
    words = _BETWEEN_WORDS.split(marked) if _HUMP in marked else ()
    return [
        _spaced(word.replace(_HUMP, "")) for word in words if _HUMP in word and " " in _spaced(word)
    ]


def _marked(text: str) -> str:
    """Return the text with a mark at each split position, and spaces around
    letters that are words.
    """
    if text.isascii():
        return _ASCII_PLACES.sub(_mark, text)
    # Half-width and full-width letters, and letters of several code points, become the same.
    text = normal("NFKC", text)
    if in_letters(text) or is_hidden(text):
        text = _letter_patterns()[1].sub(" ", text)
    return _unicode_positions().sub(_mark, text)


def _mark(place: re.Match[str]) -> str:
    text, at, char = place.string, place.start(), place[0]
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if char.isdecimal():
        return (_DIGIT if before.isalpha() else "") + char + (_DIGIT if after.isalpha() else "")
    # The plural of an abbreviation, such as URLs.
    plural = after == "s" and before.isupper() and not text[at + 2 : at + 3].isalnum()
    return char if plural or not before.isalpha() else _HUMP + char


def _spaced(word: str) -> str:
    """Return a word with its marks replaced by spaces, or removed if there are too many."""
    space = " " if word.count(_HUMP) <= MOST_HUMPS and word.count(_DIGIT) <= MOST_DIGITS else ""
    return word.replace(_HUMP, space).replace(_DIGIT, space)
