"""Unicode's normal forms of a text, in a time that grows with its length.

Python puts the marks that follow one letter in their order by insertion, so that a megabyte of them
holds the store up for five
minutes. No language has more than a few: what follows on MOST_MARKS of them is left out, as UAX #15
bounds them (D3) at 30.
"""

import re
import unicodedata
from functools import cache
from typing import Literal

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
