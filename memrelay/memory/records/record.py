"""The record, the unit of everything that is remembered (seed 000, "Record Schema"), and its
checksum.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple
from zlib import crc32


class Record(NamedTuple):
    """A record as reads return it.

    Times are Unix ms. `tags` is a JSON array as text. `score` is 0 unless a search found the
    record. The record expires at `expires_at`, None for never.
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


# Creates a record from an iterable of its fields. NamedTuple's own `_make` runs in Python and takes
# three times as long.
record_of: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class RecordExtras(NamedTuple):
    """Fields that few records have and only operations return.

    They are read separately, so that other reads do not pay for them.
    """

    key: str | None = None
    owner: str | None = None
    # A JSON object as text, None for an empty one.
    data: str | None = None
    # 0 or 1.
    in_context: int = 0
    thread: str | None = None
    seq: int | None = None
    # The period in which it is true, Unix ms. None for open.
    valid_from: int | None = None
    valid_to: int | None = None


PLAIN = RecordExtras()
DEFAULT_KIND = "observation"


# The checksum of a record's row, by which a scrub finds silent disk corruption. The lower 32 bits
# cover the content, which changes. The upper 31 bits cover all other texts. SQLite takes the 63
# bits as a positive integer.

UPPER_BITS = 0x7FFFFFFF


@lru_cache(4096)
def beginning(scope: str, kind: str, source: str, tags: str) -> int:
    """Return the checksum of the texts that many records share, each followed by a NUL."""
    return crc32(f"{scope}\0{kind}\0{source}\0{tags}\0".encode())


def checksum(common: int, guid: str, content: str) -> int:
    """Return the checksum of a row. `common` is the value of `beginning`.

    Every write calls it, so it is kept short.
    """
    return (crc32(guid.encode(), common) & UPPER_BITS) << 32 | crc32(content.encode())


def names_of(guid: str, extras: RecordExtras) -> str:
    """Return the text that `checksum` covers in place of the guid.

    It is the guid itself unless the record has a key, owner, data or `in_context`.
    """
    if extras[:4] == PLAIN[:4]:
        # The thread and the period of validity are not covered.
        return guid
    names = (guid, extras.key or "", extras.owner or "", extras.data or "")
    return "\0".join((*names, str(extras.in_context)))


def checksum_of_bytes(names: bytes, content: bytes) -> int:
    """Return the checksum of raw texts from disk, which may be invalid UTF-8.

    `names` holds all texts except the content, the guid last.
    """
    return (crc32(names) & UPPER_BITS) << 32 | crc32(content)


def content_checksum(content: str) -> int:
    """Return the part of the checksum that covers the content."""
    return crc32(content.encode())
