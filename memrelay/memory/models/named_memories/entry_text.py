"""Compare entry texts without embeddings, and merge one entry text into another."""

from functools import lru_cache
from hashlib import blake2b

from memrelay.memory.search.text.folding import normal
from memrelay.memory.search.text.words import plain_tokens

# Maximum length of an entry, also of a merged one. Embedders read no more.
MAX_ENTRY_CHARACTERS = 1 << 15
DIGEST_BYTES = 16
# Letters that the inflected forms of a word usually share.
PREFIX_LETTERS = 4
# Two texts with the same meaning share at least one in this many words, in some inflected form.
WORDS_PER_SHARED = 2
# Too few words to compare. A sentence in a script without spaces counts as one word.
FEW_WORDS = 2


def normalized(text: str) -> str:
    """Return the text without differences in case, white space and a trailing full stop."""
    plain = normal("NFC", text).casefold()
    return " ".join(normal("NFC", plain).split()).removesuffix(".").rstrip()


def digest_of(text: str) -> bytes:
    """Return the digest of the normalized text."""
    return blake2b(
        normalized(text).encode(errors="surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def digests_of(text: str) -> set[bytes]:
    """Return the digests of the whole entry and of each line, because a merged entry has a fact per
    line.
    """
    return {digest_of(one) for one in (text, *lines_of(text))}


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank after normalization."""
    return [line for line in text.split("\n") if normalized(line)]


def merged(old: str, new: str) -> str:
    """Return `old` with the lines of `new` that it lacks appended, or `old` itself if it has all of
    them.
    """
    known = {normalized(line) for line in lines_of(old)}
    missing = [
        line for line in new.split("\n") if normalized(line) and normalized(line) not in known
    ]
    return "\n".join([old, *missing]) if missing else old


def moved_to_end(old: str, new: str) -> str:
    """Return `old` with the line `new` as its last one, and only there."""
    known = normalized(new)
    return "\n".join([*(line for line in old.split("\n") if normalized(line) != known), new])


def overlap(one: str, other: str) -> bool:
    """Return whether two texts share enough words to justify a full comparison.

    It costs a hundredth of that comparison.
    """
    one_prefixes, other_prefixes = (
        _word_prefixes(one),
        {word[:PREFIX_LETTERS] for word in plain_tokens(other)},
    )
    fewer = min(len(one_prefixes), len(other_prefixes))
    return fewer <= FEW_WORDS or WORDS_PER_SHARED * len(one_prefixes & other_prefixes) >= fewer


# Cache the new text, which is compared with all others.
@lru_cache(1)
def _word_prefixes(text: str) -> set[str]:
    return {word[:PREFIX_LETTERS] for word in plain_tokens(text)}
