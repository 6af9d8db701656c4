"""Normalizes a text, splits it into words, numbers, names and signs, and expands contractions."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.search.text.stopwords import STOP_WORDS
from memrelay.memory.search.text.words import in_letters

_TOKEN = re.compile(
    r"(?<!\w)-\d[\w.,:/-]*|(?<![\w.])-?\.\d\w*|\w[\w.,@:/+#'&-]*|!(?=\w)"
    r"|[^\w\s\"'()\[\]{}.,;:!?*~`#@/\\|\u060c\u061b\u06d4\u0964\u0965\u2022\u2026\u3001\u3002-]"
)
_JOINED_WORDS = re.compile(r"[^\W\d_]+(?:[-/,:&][^\W\d_]+)+")
_LETTERS_WITH_DOTS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_IDENTIFIER = re.compile(r"[@_]|\w[.]\w|/|\w#\w|\w:\w")
_ELIDED = re.compile(
    r"(?:l|d|qu|j|s|c|m|t|jusqu|lorsqu|puisqu|n|un|all|dell|nell|sull|dall|quell)'(?=[^\W\d_]{2})"
)
_ENDS_SENTENCE = re.compile(r"[.!?:;\u06d4\u0964\u3002\"-]\s*$")
_TITLES = frozenset(("dr", "mr", "mrs", "ms", "prof", "st", "no", "vs", "herr", "frau"))
_SUFFIXES = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
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
_ENDING = r"\"'()\[\]{};:!.,\u060c\u061b\u06d4\u0964\u0965\u3002\u3001\u2026"
# A run is tried from its first character only, because trying from each takes quadratic time.
_LOOSE = re.compile(rf"(?<![{_ENDING}])[{_ENDING}]++(?=\s|$)|(?<!\S)[\"'(\[{{]+|^[-*\u2022]\s+")
# Characters. Longer texts are compared as they are, because a write compares dozens of texts.
MOST_COMPARABLE = 8192


class Token(NamedTuple):
    """A word or a sign."""

    text: str  # in lower case
    is_name: bool = False  # a name: capitalized inside a sentence, or an identifier
    starts_sentence: bool = False  # capitalized at the start of a sentence, so possibly a name
    is_possessive: bool = False  # ends with a possessive 's


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a normalized text."""
    found: list[Token] = []
    end = 0
    shouted = text.isupper()
    for match in _TOKEN.finditer(text):
        word = match[0].rstrip(".,:/&-") or match[0]
        first = not found or (
            found[-1].text not in _TITLES
            and _ENDS_SENTENCE.search(text, end, match.start()) is not None
        )
        if word.startswith((".", "-.")):  # .5 is 0.5
            found.append(Token(word.replace(".", "0.").lower()))
        elif not (word.isascii() and word.isalpha()):
            found += _split_word(word, first)
        elif word.isupper() and not shouted and _is_code(word, first):
            found.append(Token(f"#{word}"))
        else:
            found.append(
                Token(word.lower(), not first and word[0].isupper(), first and word[0].isupper())
            )
        end = match.start() + len(word)
    return _ignore_title_case([token for token in found if token.text])


def _is_code(word: str, first: bool) -> bool:
    """Return whether capitals form a code: service A, the US. Most words in capitals do not."""
    return (
        word != "I"
        and not (first and word == "A")
        and (len(word) == 1 or word.lower() in STOP_WORDS["english"])
    )


def _split_word(word: str, first: bool) -> Iterator[Token]:
    """Yield the tokens of a word with other characters than ASCII letters."""
    capital = word[:1].isupper()
    lower = word.lower()
    if in_letters(word):
        yield from _split_letters(lower)
    elif lower in _SIGNS:
        yield from [Token(_SIGNS[lower])] if _SIGNS[lower] else []
    elif "'" in lower:
        yield from _expand_contraction(word, first)
    elif _LETTERS_WITH_DOTS.fullmatch(lower):
        yield Token(lower.replace(".", ""), capital and not first)
    elif _JOINED_WORDS.fullmatch(lower):
        for number, part in enumerate(re.split(r"[-/,:&]", word)):
            yield Token(
                part.lower(),
                part[0].isupper() and not (first and not number),
                first and not number and capital,
            )
    elif (
        lower[-1:].isalpha()
        and not any(char.isdigit() for char in lower)
        and _IDENTIFIER.search(lower)
    ):
        yield Token(lower, is_name=True)
    else:
        yield Token(lower, capital and not first, capital and first)


def _split_letters(word: str) -> Iterator[Token]:
    """Yield CJK letters one by one, because their scripts have no spaces."""
    rest = ""
    for char in word:
        if char.isalpha() and in_letters(char):
            if rest:
                yield Token(rest)
            yield Token(char)
            rest = ""
        else:
            rest += char
    if rest:
        yield Token(rest)


def _expand_contraction(word: str, first: bool) -> Iterator[Token]:
    """Expand a contraction: `doesn't`, `user's` as a possessive, the article in `l'ufficio`."""
    capital = word[0].isupper()
    lower = word.lower().rstrip("'")
    elided = _ELIDED.match(lower)
    stem, short = next(
        ((lower[: -len(end)], long) for end, long in _SUFFIXES.items() if lower.endswith(end)),
        ("", ""),
    )
    if lower.endswith("n't"):
        yield Token({"can't": "can", "won't": "will", "shan't": "shall"}.get(lower, lower[:-3]))
        yield Token("not")
    elif short:
        yield Token(stem, capital and not first, capital and first)
        yield Token(short)
    elif lower.endswith("'s") and lower[:-2] in _WITH_IS:
        yield Token(lower[:-2])
        yield Token("is")
    elif elided:
        rest = word[elided.end() :]
        yield Token(elided[0][:-1])
        yield Token(rest.lower(), rest[0].isupper())
    else:
        owner = lower.endswith("'s") or word.endswith("'")
        yield Token(
            lower.removesuffix("'s").replace("'", ""),
            capital and not first,
            capital and first,
            owner,
        )


def _ignore_title_case(found: list[Token]) -> list[Token]:
    """Ignore capitals if most words have one."""
    capitals = sum(token.is_name or token.starts_sentence for token in found)
    if capitals <= 3 or capitals * 5 <= len(found) * 3:
        return found
    return [
        token._replace(is_name=False, starts_sentence=False) if token.text.isalpha() else token
        for token in found
    ]


def normalize(text: str) -> str:
    """Return the text in NFKC with plain quotation marks, hyphens and single spaces.

    The case of letters stays.
    """
    if text.isascii():
        return _operators(" ".join(text.split()).replace("`", "'"))
    text = _BESIDE_A_NUMBER.sub(_separate_sign, text)
    words = (
        word if len(word) > LONGEST_WORD else unicodedata.normalize("NFKC", word)
        for word in text.split()
    )
    return _operators(" ".join(" ".join(words).translate(_MARKS).split()))


def _separate_sign(match: re.Match[str]) -> str:
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

    Texts with the same form are equal. Signs inside a word, signs before a number, symbols
    and question marks stay: 1.5 is not 15, -3 is not 3, < is not >. A text of more than
    `MOST_COMPARABLE` characters is returned as it is.
    """
    if len(text) > MOST_COMPARABLE:
        return text
    return " ".join(map(_lower, _LOOSE.sub(" ", normalize(text)).split()))


def _lower(word: str) -> str:
    """Return the word in lower case, except for an option of one letter: -v is not -V."""
    return word if word[0] == "-" and len(word) == 2 else word.casefold()
