"""The text of an entry: when two are the same before anything is embedded, and how one is added to
another."""

from functools import lru_cache
from hashlib import blake2b

from memrelay.memory.text.folding import normal
from memrelay.memory.text.words import plain_tokens

MOST_CHARACTERS = 1 << 15  # of an entry, and so of a merged one: no embedder looks further
DIGEST_BYTES = 16
BEGINNING = 4  # letters of a word that most of its forms have
# one of so many words is shared at least by two texts that say the same in other forms of their
# words
SHARED = 2
FEW_WORDS = 2  # which say too little; a sentence without spaces is one


def normalized(text: str) -> str:
    """What texts have in common that differ in case, white space and the full stop at the end
    alone."""
    plain = normal("NFC", text).casefold()
    return " ".join(normal("NFC", plain).split()).removesuffix(".").rstrip()


def digest_of(text: str) -> bytes:
    """The same for texts that are the same."""
    return blake2b(
        normalized(text).encode(errors="surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def digests_of(text: str) -> set[bytes]:
    """Of an entry: as a whole, and of each line, since merged facts are a line each."""
    return {digest_of(one) for one in (text, *lines_of(text))}


def lines_of(text: str) -> list[str]:
    """The lines that say something."""
    return [line for line in text.split("\n") if normalized(line)]


def merged(old: str, new: str) -> str:
    """`old` with the lines of `new` below that it does not have; `old` itself where it has them
    all."""
    known = {normalized(line) for line in lines_of(old)}
    added = [line for line in new.split("\n") if normalized(line) and normalized(line) not in known]
    return "\n".join([old, *added]) if added else old


def overlap(one: str, other: str) -> bool:
    """Whether two texts share enough words to be worth a closer look; a hundredth of what that
    costs."""
    ones, others = _beginnings(one), {word[:BEGINNING] for word in plain_tokens(other)}
    fewer = min(len(ones), len(others))
    return fewer <= FEW_WORDS or SHARED * len(ones & others) >= fewer


@lru_cache(1)  # of the new text, which all others are compared with
def _beginnings(text: str) -> set[str]:
    return {word[:BEGINNING] for word in plain_tokens(text)}
