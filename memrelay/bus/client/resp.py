"""Commands packed to bytes (RESP2) for the worker's data path."""

from binascii import hexlify
from collections.abc import Iterable
from zlib import crc32

import hiredis

from memrelay.bus.codec import COPY_HEAD, COPY_JOINT, DIGEST_SIZE, PLACES, format_place
from memrelay.bus.keys import SwarmName, make_swarm_key

Word = bytes | str | int
SwarmMessage = tuple[SwarmName, bytes]  # a swarm and the envelope published on it


def pack(*words: Word) -> bytes:
    # hiredis declares a tuple of one word.
    return hiredis.pack_command(words)  # type: ignore[arg-type, no-any-return]


def bulk(word: Word) -> bytes:
    """Return one packed word of a command."""
    data = word if isinstance(word, bytes) else str(word).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)


def head(count: int, *words: Word) -> bytes:
    """Return the beginning of a command of `count` words; the caller appends the rest."""
    return b"*%d\r\n" % count + b"".join([bulk(word) for word in words])


MULTI, EXEC = pack("MULTI"), pack("EXEC")
PUBLISH = head(3, "PUBLISH")
CRLF = b"\r\n"


def _before_mid(size: int) -> bytes:
    return b"\r\n$%d\r\n" % size


def _before_data(size: int) -> bytes:
    return b"\r\n$4\r\ndata\r\n$%d\r\n" % size


def _before_copy(size: int) -> bytes:
    return b"\r\n$%d\r\n%s" % (size + len(COPY_HEAD) + len(COPY_JOINT) - 1, COPY_HEAD)


# The bytes between the parts of a command, by the length of the next part. Formatting them costs
# as much as the rest of a short message.
_BEFORE_MID, _BEFORE_DATA, _BEFORE_COPY = (
    [before(size) for size in range(most)]
    for before, most in ((_before_mid, 256), (_before_data, 1024), (_before_copy, 1024))
)


class SwarmEncoder:
    """Packs the messages of a pipeline for the logs and channels of its swarms.

    `uid` is the pipeline's. Logs are trimmed to about `log_length` entries.
    """

    def __init__(self, uid: str, log_length: int) -> None:
        self._uid, self._log_length = uid, log_length
        # By swarm: the beginnings of its XADD and of the words after PUBLISH.
        self._heads: dict[SwarmName, tuple[bytes, bytes]] = {}

    def write(
        self, ident: bytes, said: Iterable[SwarmMessage], numbers: Iterable[int] | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Pack messages that the input `ident` led to, by default all, with the numbers 0, 1, ...

        Return the XADD commands and, for each message, the packed words after PUBLISH.
        """
        logged, live, heads, join, fixed = [], [], self._heads, b"".join, len(ident) + DIGEST_SIZE
        numbered = enumerate(said) if numbers is None else zip(numbers, said, strict=True)
        for number, (swarm, data) in numbered:
            log, copy = heads.get(swarm) or self._make_heads(swarm)
            place = PLACES[number] if number < len(PLACES) else format_place(number)
            size, length = fixed + len(place), len(data)
            digest = hexlify(crc32(data).to_bytes(4))  # as codec.digest, without the call
            try:
                before_mid, before_data = _BEFORE_MID[size], _BEFORE_DATA[length]
                before_copy = _BEFORE_COPY[size + length]
            except IndexError:
                before_mid, before_data = _before_mid(size), _before_data(length)
                before_copy = _before_copy(size + length)
            logged.append(join((log, before_mid, ident, place, digest, before_data, data, CRLF)))
            live.append(join((copy, before_copy, ident, place, digest, COPY_JOINT, data[1:], CRLF)))
        return logged, live

    def _make_heads(self, swarm: SwarmName) -> tuple[bytes, bytes]:
        """Return both beginnings without their last line break, which is part of the next bytes."""
        key = make_swarm_key(self._uid, swarm)
        heads = (
            head(10, "XADD", key, "MAXLEN", "~", self._log_length, "*", "mid")[:-2],
            bulk(key)[:-2],
        )
        self._heads[swarm] = heads
        return heads

    @property
    def logs(self) -> list[str]:
        """The logs of all swarms that messages were packed for."""
        return [make_swarm_key(self._uid, swarm) for swarm in self._heads]
