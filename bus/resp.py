"""Commands as bytes (RESP2), packed by hand: a command costs about 1 microsecond here and 10 in a general client."""

from bus.codec import COPY_HEAD, COPY_JOINT, seal

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


def _length(size: int) -> bytes:
    return b"\r\n$%d\r\n" % size


CRLF, DATA = b"\r\n", b"\r\n$4\r\ndata"
COPY_EXTRA = len(COPY_HEAD) + len(COPY_JOINT) - 1
_LENGTHS = [_length(size) for size in range(2048)]   # formatting one costs as much as the rest of a short message


class SwarmPen:
    """Packs what is said on one swarm: an entry of the log, trimmed to about `log_length`, and the live copy."""

    def __init__(self, key: str, log_length: int) -> None:
        """`key` names both the log and the channel."""
        self._log = head(10, "XADD", key, "MAXLEN", "~", log_length, "*", "mid")[:-2]   # each length brings its own CRLF
        self._live = head(3, "PUBLISH", key)[:-2]

    def write(self, ident: bytes, number: int, data: bytes) -> tuple[bytes, bytes]:
        """(XADD, PUBLISH) of the `number`-th message that an input led to, whose envelope is `data`."""
        return self.write_sealed(seal(ident, number, data), data)

    def write_sealed(self, mid: bytes, data: bytes) -> tuple[bytes, bytes]:
        """The same for a message whose `mid` is known."""
        size, length = len(mid), len(data)
        try:
            plain, live = _LENGTHS[length], _LENGTHS[size + length + COPY_EXTRA]
        except IndexError:
            plain, live = _length(length), _length(size + length + COPY_EXTRA)
        return (b"".join((self._log, _LENGTHS[size], mid, DATA, plain, data, CRLF)),
                b"".join((self._live, live, COPY_HEAD, mid, COPY_JOINT, data[1:], CRLF)))
