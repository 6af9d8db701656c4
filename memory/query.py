"""The one builder of FTS5 queries: whatever a user types is words to find, never syntax."""
import re

from memory.errors import Refused

MAX_WORDS = 256   # FTS5 takes seconds for some thousands: its time grows with their square, and with each hit in a long text
_WORD = re.compile(r"[^\W_]+|[^\x00-\x7f]")   # at least as many as unicode61 finds tokens


def fts_query(text: str) -> str:
    """Every word quoted, all of them wanted. "" where there is no word. Raises Refused where there are too many.

    A quoted word of several tokens (`user-name`) is a phrase of them; one without any (`-`) is ignored by FTS5 among others.
    """
    words = dict.fromkeys(word for word in text.replace("\x00", " ").split() if _has_token(word))
    query = " ".join('"' + word.replace('"', '""') + '"' for word in words)
    if len(query) > MAX_WORDS and (count := len(_WORD.findall(query))) > MAX_WORDS:
        raise Refused(f"the query has {count} words; at most {MAX_WORDS} are looked for, since a record must hold them all")
    return query


def _has_token(word: str) -> bool:
    """Whether unicode61 finds a token in it: letters and digits, and what is not ASCII is left to it."""
    return any(char.isalnum() or char > "\x7f" for char in word)
