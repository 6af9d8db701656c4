"""Commands as bytes (RESP2), packed by hand: a command costs about 1 microsecond here and 10 in a
general client."""

from binascii import hexlify
from collections.abc import Iterable
from zlib import crc32

from memrelay.bus.codec import COPY_HEAD, COPY_JOINT, DIGEST_SIZE, PLACES, entry_id_of
from memrelay.bus.public_swarms import SwarmName, key_of

Word = bytes | str | int


def pack(*words: Word) -> bytes:
    """One command."""
    return b"*%d\r\n" % len(words) + b"".join([bulk(word) for word in words])


def bulk(word: Word) -> bytes:
    """One word of a command."""
    data = word if isinstance(word, bytes) else str(word).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)


def head(count: int, *words: Word) -> bytes:
    """The beginning of a command of `count` words, for the caller to append the last ones to."""
    return b"*%d\r\n" % count + b"".join([bulk(word) for word in words])


MULTI, EXEC = pack("MULTI"), pack("EXEC")
PUBLISH = head(3, "PUBLISH")


CRLF = b"\r\n"
MANY = len(PLACES)  # messages that one input leads to
Said = tuple[SwarmName, bytes]  # a swarm, and the envelope that was said on it


def _before_mid(size: int) -> bytes:
    return b"\r\n$%d\r\n" % size


def _before_data(size: int) -> bytes:
    return b"\r\n$4\r\ndata\r\n$%d\r\n" % size


def _before_copy(size: int) -> bytes:
    return b"\r\n$%d\r\n%s" % (size + len(COPY_HEAD) + len(COPY_JOINT) - 1, COPY_HEAD)


# What stands between a command's parts, by a length: formatting one costs as much as the rest of a
# short message.
_BEFORE_MID, _BEFORE_DATA, _BEFORE_COPY = (
    [before(size) for size in range(most)]
    for before, most in ((_before_mid, 256), (_before_data, 1024), (_before_copy, 1024))
)


class SwarmEncoder:
    """Packs what is said on a pipeline's swarms: an entry of the log, trimmed to about
    `log_length`, and the live copy."""

    def __init__(self, uid: str, log_length: int) -> None:
        """`uid` is the pipeline's."""
        self._uid, self._log_length = uid, log_length
        self._heads: dict[
            SwarmName, tuple[bytes, bytes]
        ] = {}  # swarm -> what its commands begin with

    def write(self, ident: bytes, said: Iterable[Said]) -> tuple[list[bytes], list[bytes]]:
        """(XADDs, what follows each PUBLISH) of all that the input `ident` led to."""
        logged, live, heads, join, fixed = [], [], self._heads, b"".join, len(ident) + DIGEST_SIZE
        for number, (swarm, data) in enumerate(said):
            log, copy = heads.get(swarm) or self._begin(swarm)
            place = PLACES[number] if number < MANY else entry_id_of(number)
            size, length, digest = (
                fixed + len(place),
                len(data),
                hexlify(crc32(data).to_bytes(4)),
            )  # as codec.digest does
            try:
                before_mid, before_data, before_copy = (
                    _BEFORE_MID[size],
                    _BEFORE_DATA[length],
                    _BEFORE_COPY[size + length],
                )
            except IndexError:
                before_mid, before_data, before_copy = (
                    _before_mid(size),
                    _before_data(length),
                    _before_copy(size + length),
                )
            logged.append(join((log, before_mid, ident, place, digest, before_data, data, CRLF)))
            live.append(join((copy, before_copy, ident, place, digest, COPY_JOINT, data[1:], CRLF)))
        return logged, live

    def _begin(self, swarm: SwarmName) -> tuple[bytes, bytes]:
        """Both commands up to their last words; each length brings the line break before it."""
        key = key_of(self._uid, swarm)
        heads = (
            head(10, "XADD", key, "MAXLEN", "~", self._log_length, "*", "mid")[:-2],
            bulk(key)[:-2],
        )
        self._heads[swarm] = heads
        return heads
