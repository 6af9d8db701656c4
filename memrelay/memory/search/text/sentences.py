"""Find the sentences of a long message that ask for something. The others only lead up to it."""

import re

from memrelay.memory.search.text.stopwords import without_stop_words
from memrelay.memory.search.text.words import in_letters, taken_apart, tokens

MIN_WORDS = 12  # of a message that is read by sentences
MIN_ASKED = 2  # words to search for in the sentences that ask
MAX_CHARACTERS = 10_000  # of a message that are read
# A period after a single letter belongs to an abbreviation.
_END = re.compile(r"(?:(?<=\w\w\.)|(?<=[!?]))[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f\u061f])\s*|\n+")
_QUESTION = re.compile(r"[?\uff1f\u061f][\"')\]]*$")
# How a request begins that does not end with a question mark.
_REQUEST = re.compile(
    r"(?:(?:so|and|but|now|ok|okay|please|also|anyway|then|hey|hi)[,\s]+)*"
    r"(?:what|who|whom|whose|when|where|which|why|how|tell me|remind me|find|list|show|search|"
    r"look up|give me|recall|summari[sz]e|explain|do you (?:know|remember)|i (?:need|want) to know)"
    r"\b",
    re.IGNORECASE,
)


def asking_part(message: str, language: str) -> str:
    """Return the sentences that ask, joined.

    Sentences with a question mark ask. Without any, those that begin like an English request do.
    Returns "" if the message is short, or if all sentences or none ask. Returns "" too if those
    that ask have fewer than two words to search for: only the others explain them.
    """
    message = message[:MAX_CHARACTERS]
    sentences = [one.strip() for one in _END.split(message) if one.strip()]
    if len(sentences) < 2 or len(_words(message)) < MIN_WORDS:
        return ""
    asking = [one for one in sentences if _QUESTION.search(one)]
    asking = asking or [one for one in sentences if _REQUEST.match(one)]
    found = " ".join(asking)
    wanted = without_stop_words(tuple(dict.fromkeys(_words(found))), language, others=True)
    return found if len(wanted) >= MIN_ASKED and len(asking) < len(sentences) else ""


def _words(text: str) -> list[str]:
    """Return the words, and the letters of a script without spaces."""
    return tokens((taken_apart(text) or text) if in_letters(text) else text)
