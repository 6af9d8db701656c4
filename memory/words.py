"""What a text's words are to the full-text index, and what more of it is indexed so that its parts are found too.

unicode61 leaves `userName` whole, and a sentence in Chinese. So a record has a second indexed text, `parts`: there identifiers
are taken apart where the case changes or a digit meets a letter, and Chinese, Japanese, Korean and Thai letter by letter.
What unicode61 takes apart by itself, `user_name` and `user-name` and an e-mail address, needs none.
"""
import re
import threading
import unicodedata
from collections.abc import Iterable

import apsw

BREAK = "\U0010fffd"   # a token between the parts of two words, so that no phrase is found across them; of private use
MOST_HUMPS, MOST_DIGITS = 16, 4   # places to take an identifier apart; what has more is a hash or a key
_HUMP, _DIGIT = "\x01", "\x02"    # marks of such places; unicode61 takes neither for a part of a word


def _class(chars: Iterable[int]) -> str:
    """The inside of a pattern's [...]."""
    ranges: list[list[int]] = []
    for char in chars:
        if ranges and ranges[-1][1] == char - 1:
            ranges[-1][1] = char
        else:
            ranges.append([char, char])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_UPPER = _class(char for char in range(0x2000) if chr(char).isupper())   # of the scripts that have cases, but for rare ones
_CJK = ("\u0e01-\u0e7f\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff\u3105-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
        "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff")
_LOWER = rf"[^\W\d_{_UPPER}]"
_BEFORE_WORD = rf"(?={_LOWER})(?!s(?!\w))"   # HTTP-Server, and not UR-Ls

# Whether there may be parts. Each begins with what is rare in plain text, which makes it cost 10 ns a character.
_ASCII_HINT = re.compile("[0-9A-Z](?:(?<=[a-z].)|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z].)(?:(?<=[0-9])|(?=[a-z])))")
_HINT = re.compile(rf"[0-9{_UPPER}{_CJK}](?:(?<=[{_CJK}])|(?<={_LOWER}.)|(?<=[0-9])(?=[^\W\d_])"
                   rf"|(?<=[{_UPPER}].)(?:(?<=[0-9])|(?={_LOWER})))")
_HUMPS = re.compile(rf"(?<={_LOWER})(?=[{_UPPER}])|(?<=[{_UPPER}])(?=[{_UPPER}]{_BEFORE_WORD})")
_DIGITS = re.compile(r"(?<=[^\W\d_])(?=[0-9])|(?<=[0-9])(?=[^\W\d_])")
_LETTER = re.compile(f"[{_CJK}]")
_BETWEEN = re.compile(rf"[^\w.@\-\u0300-\u036f{_HUMP}{_DIGIT}]+")


class _Tokenizer(threading.local):
    """SQLite's own, so that nothing differs; one a thread, since it keeps a buffer."""

    def __init__(self) -> None:
        self.split = apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "2"])


_tokenizer = _Tokenizer()


def tokens(text: str) -> list[str]:
    """The words of a text as the index has them, in order: folded, without accents. A microsecond for a sentence."""
    found = _tokenizer.split(text.encode(errors="replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None,
                             include_offsets=False, include_colocated=False)
    return found   # type: ignore[return-value]


def parts_of(content: str) -> str | None:
    """What is indexed of a content beside itself; None where there is nothing to take apart, as in most."""
    if (_ASCII_HINT if content.isascii() else _HINT).search(content) is None:
        return None
    words, letters = _taken_apart(content)
    if letters:
        return " ".join(words)   # all of it, so that phrases are found whatever scripts they mix
    return f" {BREAK} ".join(word for word in words if " " in word) or None


def taken_apart(text: str) -> str | None:
    """The words of a query as `parts_of` has them, between them those that have no parts; None where it is `text` itself."""
    if (_ASCII_HINT if text.isascii() else _HINT).search(text) is None:
        return None
    words, letters = _taken_apart(text)
    return " ".join(words) if letters or any(" " in word for word in words) else None


def in_letters(text: str) -> bool:
    """Whether some of it is Chinese, Japanese, Korean or Thai: then all records that hold it have it in their parts."""
    return not text.isascii() and _LETTER.search(text) is not None


def _taken_apart(text: str) -> tuple[list[str], bool]:
    """Its words, those that have parts with a space between these; and whether there were letters that are words."""
    letters = in_letters(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)   # letters in half and full width, and of several code points, are the same
    if letters:
        text = _LETTER.sub(r" \g<0> ", text)
    return [_spaced(word) for word in _BETWEEN.split(_DIGITS.sub(_DIGIT, _HUMPS.sub(_HUMP, text))) if word], letters


def _spaced(word: str) -> str:
    space = " " if word.count(_HUMP) <= MOST_HUMPS and word.count(_DIGIT) <= MOST_DIGITS else ""
    return word.replace(_HUMP, space).replace(_DIGIT, space)
