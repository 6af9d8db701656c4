"""The checksum of a record's row: what a disk changes silently, a scrub finds by it.

The lower 32 bits are the content's, which changes; those above are all other texts'. 63 bits, which
SQLite takes as positive.
"""

from functools import lru_cache
from zlib import crc32

from memory.record import PLAIN, Further

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
