"""What readers take for the same letters and unicode61 does not: made plain here, in what is
indexed and in what is asked.

unicode61 folds capitals and the accents of Latin letters. It leaves `ß`, `ł` and `đ`, ligatures,
raised digits and the accents
of other scripts as they are, and it takes a soft hyphen, or a vowel that is written as a mark
(Hindi, Arabic, Hebrew, Burmese),
for the end of a word. Where such vowels tell words apart, as in Hindi, all letters become
characters of private use here: those
it takes for letters, and what it has made of the text as it was is found by nobody.
"""

import re
import unicodedata
from functools import cache
from typing import Literal

# Unicode's normal forms of a text, in a time that grows with its length.
#
# Python puts the marks that follow one letter in their order by insertion, so that a megabyte of them
# holds the store up for five
# minutes. No language has more than a few: what follows on MOST_MARKS of them is left out, as UAX #15
# bounds them (D3) at 30.

MOST_MARKS = 64
_STEP = (
    MOST_MARKS // 2
    # any more marks than MOST_MARKS have one of the pieces of this length among them, wherever they
    # begin
)
_LAST_MARK = 0x1E94A


def normal(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """The text in this form."""
    if len(text) > MOST_MARKS and not text.isascii():
        some, more = _patterns()
        if any(some.match(text, at) is not None for at in range(0, len(text), _STEP)):
            text = more.sub(r"\1", text)
    return unicodedata.normalize(form, text)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(a piece of marks alone, more marks than are taken). Made by the first text that needs it, in
    25 ms."""
    marks = "".join(
        char
        for char in map(chr, range(0x300, _LAST_MARK + 1))
        if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])
    )
    return re.compile(f"[{marks}]{{{_STEP}}}"), re.compile(f"([{marks}]{{{MOST_MARKS}}})[{marks}]+")


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
}  # the last is Cyrillic
_PLAIN |= {"ẞ": "SS"} | {
    letter.upper(): plain.upper() for letter, plain in _PLAIN.items() if letter not in "ß\u0131"
}
_PLAIN |= dict(
    zip(
        # Arabic and Persian as Lucene's
        "\u0623\u0625\u0622\u0671\u0649\u06cc\u06d2\u06a9\u0629\u06c0\u06c1",
        "\u0627\u0627\u0627\u0627\u064a\u064a\u064a\u0643\u0647\u0647\u0647",
        strict=True,
    )
)
_PLAIN |= {"\u0640": ""}  # what makes an Arabic word longer

# Where all the others are, or may be: of most of these characters some are plain already.
_SOME = (
    "\u00aa\u00ad\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u0132\u0133\u0370-\u03ff\u0591-\u0dff\u0e50-\u0e59\u0ed0-\u0ed9"
    "\u0f00-\u109f\u1700-\u1cff\u1f00-\u1fff\u200c-\u200f\u202a-\u202e\u2060-\u209c\u2103\u2109\u2160-\u217f\u3371-\u33df\ua800-\uabff"
    "\ufb00-\ufdf9\ufe00-\ufe0f\ufe70-\ufefc\ufeff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff"
)
_CHARACTERS, _MARKS = f"{_SOME}{''.join(_PLAIN)}", "\u0300-\u036f"
_MAY_BE_UNLIKE = re.compile(
    f"[{_CHARACTERS}{_MARKS}]"
)  # a class alone is looked for four times as fast
_UNLIKE = re.compile(f"[{_CHARACTERS}]|(?<=[\u0400-\u04ff])[{_MARKS}]")
# The scripts of India, Tibet, Burma, Cambodia and their kin.
_WITH_MARKS = re.compile(
    "[\u0780-\u07bf\u0900-\u0dff\u0f00-\u109f\u1700-\u17ff\u1900-\u1aaf\u1b00-\u1c7f\u1cd0-\u1cff"
    "\ua800-\ua95f\ua980-\uaadf\uabc0-\uabff]"
)
_PRIVATE = 0x100000  # where their letters and marks stand, and their own number beyond that
HIDDEN = "\U00100780-\U0010abff"  # all of these; none is a surrogate once it is shown
_HIDDEN = re.compile(f"[{HIDDEN}]")
_DOT = 7  # the class of dots below letters, which many leave out


def folded(text: str) -> str:
    """The text in plain letters. What has others is found at 5 ns a character, and made plain at
    200 for each of them."""
    if text.isascii() or _MAY_BE_UNLIKE.search(text) is None or _UNLIKE.search(text) is None:
        return text
    return _UNLIKE.sub(_plain, normal("NFC", text))


def is_hidden(plain: str) -> bool:
    """Whether a text that is folded is, or has, something that unicode61 had for other words."""
    return not plain.isascii() and _HIDDEN.search(plain) is not None


def hidden(letters: str) -> str:
    """The inside of a pattern's [...], for letters of these scripts once they are folded."""
    return "".join(char if char == "-" else chr(_PRIVATE + ord(char)) for char in letters)


def shown(plain: str) -> str:
    """What was folded, as people read it."""
    return (
        plain if plain.isascii() else _HIDDEN.sub(lambda char: chr(ord(char[0]) - _PRIVATE), plain)
    )


def _plain(match: re.Match[str]) -> str:
    plain, after = _plain_of(match[0]), match.string[match.end() : match.end() + 1]
    if len(plain) > 1 and match[0].isupper() and not after.isupper():
        return plain[0] + plain[1:].lower()  # `Aero` for `Ærø`: else a word would begin within
    return plain


@cache
def _plain_of(char: str) -> str:
    """Of a single character."""
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
        return char.lower()  # Georgian capitals, which are younger than unicode61's table
    like = unicodedata.normalize("NFKC", char)
    return char if like == char else "" if " " in like else folded(like)
