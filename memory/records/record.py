"""The record: everything that is remembered is one (seed 000, "Record Schema")."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32


class Record(NamedTuple):
    """A record as it is answered; times are Unix ms, `tags` a JSON array as text, `score` 0 unless
    it was searched for.

    From `expires_at` on it is gone; None for never.
    """

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: str
    created_at: int
    updated_at: int
    expires_at: int | None = None
    score: float = 0.0


# A record of as many values as it has fields. What NamedTuple makes, `_make`, is Python and takes
# three times as long.
record_of: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Further(NamedTuple):
    """What few records have, and only operations tell: it is read by itself, so that nobody else
    pays for it."""

    key: str | None = None
    owner: str | None = None
    data: str | None = None  # a JSON object as text; None for an empty one
    in_context: int = 0  # or 1
    thread: str | None = None
    seq: int | None = None


PLAIN = Further()
DEFAULT_KIND = "observation"


# The checksum of a record's row: what a disk changes silently, a scrub finds by it.
#
# The lower 32 bits are the content's, which changes; those above are all other texts'. 63 bits, which
# SQLite takes as positive.

ABOVE = 0x7FFFFFFF


@lru_cache(4096)
def beginning(scope: str, kind: str, source: str, tags: str) -> int:
    """Of what many records have in common; each of these texts ends with a zero."""
    return crc32(f"{scope}\0{kind}\0{source}\0{tags}\0".encode())


def checksum(common: int, guid: str, content: str) -> int:
    """Of a row; `common` is its `beginning`. On the way of every write, so it is kept short."""
    return (crc32(guid.encode(), common) & ABOVE) << 32 | crc32(content.encode())


def names_of(guid: str, further: Further) -> str:
    """What stands for a guid in `checksum` where a record has more than most do; the guid itself
    where it has not."""
    if further[:4] == PLAIN[:4]:
        return guid  # whatever thread it is in
    return f"{guid}\0{further.key or ''}\0{further.owner or ''}\0{further.data or ''}\0{further.in_context}"


def checksum_of_bytes(names: bytes, content: bytes) -> int:
    """The same of texts as they lie on disk, which need not be text any more; `names` are all
    others, the guid last."""
    return (crc32(names) & ABOVE) << 32 | crc32(content)


def content_checksum(content: str) -> int:
    """The part that changes with the content."""
    return crc32(content.encode())
