"""Fold letters that readers take for the same but unicode61 does not, in indexed texts and in
queries.

unicode61 folds capitals and the accents of Latin letters. It keeps `ß`, `ł` and `đ`, ligatures,
raised digits and the accents of other scripts. It ends a word at a soft hyphen, and at a vowel
written as a mark (Hindi, Arabic, Hebrew, Burmese).

In scripts whose vowel marks distinguish words, such as Hindi, all letters become private-use
characters. unicode61 takes those for letters. No query matches what it makes of the original text.
"""

import re
import unicodedata
from functools import cache
from typing import Literal

from memrelay.memory.search.text.emoji import shown_emoji

# Unicode normalization in linear time. Python orders the marks after a letter by insertion, so that
# a megabyte of marks blocks the store for five minutes. No language has more than a few: marks
# after the first MOST_MARKS of a letter are dropped. UAX #15 (D3) sets the bound at 30.

MOST_MARKS = 64
# A longer run of marks contains a whole piece of this length at a multiple of it.
_STEP = MOST_MARKS // 2
_LAST_MARK = 0x1E94A


def normal(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return the text in this normal form."""
    if len(text) > MOST_MARKS and not text.isascii():
        mark_piece, surplus_marks = _patterns()
        if any(mark_piece.match(text, at) is not None for at in range(0, len(text), _STEP)):
            text = surplus_marks.sub(r"\1", text)
    return unicodedata.normalize(form, text)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return (pattern of a piece of marks, pattern of surplus marks).

    The first text that needs them builds them in 25 ms.
    """
    marks = "".join(
        char
        for char in map(chr, range(0x300, _LAST_MARK + 1))
        if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])
    )
    return re.compile(f"[{marks}]{{{_STEP}}}"), re.compile(f"([{marks}]{{{MOST_MARKS}}})[{marks}]+")


# The last one is Cyrillic.
_PLAIN = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "\u0131": "i",
    "ħ": "h",
    "ŧ": "t",
    "ŋ": "n",
    "\u0451": "\u0435",
}
_PLAIN |= {"ẞ": "SS"} | {
    letter.upper(): plain.upper() for letter, plain in _PLAIN.items() if letter not in "ß\u0131"
}
_PLAIN |= dict(
    zip(
        # Arabic and Persian, as in Lucene.
        "\u0623\u0625\u0622\u0671\u0649\u06cc\u06d2\u06a9\u0629\u06c0\u06c1",
        "\u0627\u0627\u0627\u0627\u064a\u064a\u064a\u0643\u0647\u0647\u0647",
        strict=True,
    )
)
# Lengthens Arabic words.
_PLAIN |= {"\u0640": ""}

# Ranges that contain all other letters to fold. Some of their characters are plain already.
_RANGES = (
    "\u00aa\u00ad\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u0132\u0133\u0370-\u03ff\u0591-\u0dff"
    "\u0e50-\u0e59\u0ed0-\u0ed9\u0f00-\u109f\u1700-\u1cff\u1f00-\u1fff\u200c-\u200f\u202a-\u202e"
    "\u2060-\u209c\u2103\u2109\u2160-\u217f\u3371-\u33df\ua800-\uabff\ufb00-\ufdf9\ufe00-\ufe0f"
    "\ufe70-\ufefc\ufeff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff"
)
_CHARACTERS, _MARKS = f"{_RANGES}{''.join(_PLAIN)}", "\u0300-\u036f"
# A superset of the next pattern: a lone character class matches four times as fast.
_MAY_NEED_FOLDING = re.compile(f"[{_CHARACTERS}{_MARKS}]")
_NEEDS_FOLDING = re.compile(f"[{_CHARACTERS}]|(?<=[\u0400-\u04ff])[{_MARKS}]")
# Scripts with vowel marks: India, Tibet, Burma, Cambodia and related ones.
_WITH_MARKS = re.compile(
    "[\u0780-\u07bf\u0900-\u0dff\u0f00-\u109f\u1700-\u17ff\u1900-\u1aaf\u1b00-\u1c7f\u1cd0-\u1cff"
    "\ua800-\ua95f\ua980-\uaadf\uabc0-\uabff]"
)
# Their letters and marks become the private-use character at this offset plus the code point.
_PRIVATE = 0x100000
# All of these characters. Subtracting the offset never gives a surrogate.
HIDDEN = "\U00100780-\U0010abff"
_HIDDEN = re.compile(f"[{HIDDEN}]")
# The combining class of dots below letters, which many writers omit.
_DOT = 7


def folded(text: str) -> str:
    """Return the text in plain letters.

    The search for letters to fold costs 5 ns per character, folding 200 ns per such letter.
    """
    if (
        text.isascii()
        or _MAY_NEED_FOLDING.search(text) is None
        or _NEEDS_FOLDING.search(text) is None
    ):
        return text
    return _NEEDS_FOLDING.sub(_plain, normal("NFC", text))


def is_hidden(folded_text: str) -> bool:
    """Return whether a folded text contains private-use letters."""
    return not folded_text.isascii() and _HIDDEN.search(folded_text) is not None


def hidden(letters: str) -> str:
    """Return the character class of these scripts' letters after folding, for the
    inside of [...].
    """
    return "".join(char if char == "-" else chr(_PRIVATE + ord(char)) for char in letters)


def shown(folded_text: str) -> str:
    """Return a folded text in its original letters and emoji."""
    return (
        folded_text
        if folded_text.isascii()
        else shown_emoji(_HIDDEN.sub(lambda char: chr(ord(char[0]) - _PRIVATE), folded_text))
    )


def _plain(match: re.Match[str]) -> str:
    folded_text, after = _plain_of(match[0]), match.string[match.end() : match.end() + 1]
    if len(folded_text) > 1 and match[0].isupper() and not after.isupper():
        # `Aero` for `Ærø`: otherwise a word would begin inside.
        return folded_text[0] + folded_text[1:].lower()
    return folded_text


@cache
def _plain_of(char: str) -> str:
    if char in _PLAIN:
        return _PLAIN[char]
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    kind = unicodedata.category(char)
    if _WITH_MARKS.match(char) and kind in ("Lo", "Lm", "Mn", "Mc"):
        return "" if unicodedata.combining(char) == _DOT else chr(_PRIVATE + ord(char))
    if kind in ("Mn", "Cf"):
        return ""
    if "\u0370" <= char <= "\u03ff" or "\u1f00" <= char <= "\u1fff":
        return unicodedata.normalize("NFD", char)[0]
    if "\u1c90" <= char <= "\u1cbf":
        # Georgian capitals, which unicode61's table lacks.
        return char.lower()
    compatible = unicodedata.normalize("NFKC", char)
    return char if compatible == char else "" if " " in compatible else folded(compatible)
