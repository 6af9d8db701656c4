"""Questions with several answers, and the signs of questions and names in texts."""

import re

MARKS = "?\uff1f\u061f"  # Latin, full-width (Chinese, Japanese), Arabic
# ends of the sentence before the question
ENDS = ". ", "! ", "? ", "\n", "\u3002", "\uff01", *MARKS[1:]
MAX_NAMES = 6  # words of names in a text that count
LOOKED_AT = 4  # words after `which` that may be the plural noun
# A capitalized word within a sentence, or an opening quote.
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-z]|[\"\u201c])")
_WORD = re.compile(r"[a-z']+")
_COUNTS = {"many", "often", "both", "all"}
_VERBS = {
    *("does", "do", "did", "is", "was", "has", "had", "can", "could", "would"),
    *("will", "should", "may", "might", "must", "to", "that"),
}
_AUXILIARIES = {"do", "does", "did", "to"}
_PERFECT = {"what", "which", "where", "who"}
_SINGULAR_ENDINGS = ("ss", "us", "is", "'s")
_PLURALS = {"people", "children"}


def wants_several(question: str) -> bool:
    """Return whether an English question asks for a class or a count, which many records answer.

    Such are `how many times`, `both`, `which cities`, `what are`, and `what has Ada painted`.
    """
    words = _WORD.findall(question.lower()[:1000])
    if _COUNTS.intersection(words):
        return True
    for at, word in enumerate(words):
        if word in ("what", "which") and _has_plural(words[at + 1 : at + 1 + LOOKED_AT]):
            return True
    is_perfect = words[:1] and words[0] in _PERFECT and not _AUXILIARIES.intersection(words)
    return bool(is_perfect and {"has", "have"}.intersection(words))


def closing_question_share(text: str) -> float:
    """Return the share of the text taken by its closing question.

    Returns 0 if the text does not end with a question, and 1 if it is only a question.
    """
    text = text.strip()
    if not text.endswith(tuple(MARKS)):
        return 0.0
    before = text.rstrip(MARKS)
    begins = max((at + len(end) for end in ENDS if (at := before.rfind(end)) >= 0), default=0)
    return (len(text) - begins) / len(text)


def count_names(text: str) -> int:
    """Return how many capitalized words and quotes a text has within its sentences, at most six."""
    return min(len(_NAME.findall(text)), MAX_NAMES)


def _has_plural(words: list[str]) -> bool:
    for word in words:
        if word in _VERBS:
            return False
        if word in _PLURALS or (word.endswith("s") and not word.endswith(_SINGULAR_ENDINGS)):
            return True
        if word in ("are", "were"):
            return word == "are"
    return False
