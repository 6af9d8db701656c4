"""Normalizes a text: one form for each letter, quotation mark, hyphen and space."""

import re
import unicodedata

# Characters. Longer words stay as they are: sorting thousands of accents takes too long.
LONGEST_WORD = 256

_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
        "\u2044": "/",  # of a fraction
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff", None),
    }
)
_BESIDE_A_NUMBER = re.compile(
    "(?<=[0-9])[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u208e\u2150-\u215f\u2189\u2460-\u249b]"
)
_LOOSE = re.compile(
    r"[\"'()\[\]{};:!.,\u060c\u061b\u06d4\u0964\u0965\u3002\u3001\u2026]+(?=\s|$)"
    r"|(?<!\S)[\"'(\[{]+|^[-*\u2022]\s+"
)


def normalize(text: str) -> str:
    """Return the text in NFKC with plain quotation marks, hyphens and single spaces.

    The case of letters stays.
    """
    if text.isascii():
        return _operators(" ".join(text.split()).replace("`", "'"))
    text = _BESIDE_A_NUMBER.sub(_split_word, text)
    words = (
        word if len(word) > LONGEST_WORD else unicodedata.normalize("NFKC", word)
        for word in text.split()
    )
    return _operators(" ".join(" ".join(words).translate(_MARKS).split()))


def _split_word(match: re.Match[str]) -> str:
    """Separate a sign from the number before it: 10^3 for a superscript 3, 1 1/2 for a half."""
    kind = unicodedata.decomposition(match[0]).partition(" ")[0]
    return {"<super>": "^", "<sub>": "_"}.get(kind, " ") + match[0]


def _operators(text: str) -> str:
    """Replace !=, <= and -> by one sign each."""
    text = text.replace("->", "\u2192") if ">" in text else text
    return (
        text.replace("!=", "\u2260").replace("<=", "\u2264").replace(">=", "\u2265")
        if "=" in text
        else text
    )


def comparable_form(text: str) -> str:
    """Return the text without case and without punctuation at the ends of words.

    Texts with the same plain form are equal. Signs inside a word, signs before a number, symbols
    and question marks stay: 1.5 is not 15, -3 is not 3, < is not >.
    """
    return " ".join(map(_lower, _LOOSE.sub(" ", normalize(text)).split()))


def _lower(word: str) -> str:
    """Return the word in lower case, except for an option of one letter: -v is not -V."""
    return word if word[0] == "-" and len(word) == 2 else word.casefold()
