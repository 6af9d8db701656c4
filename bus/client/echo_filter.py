"""Our own live copies, which come back to the connection that listens on the same channels, passed
over without reading them.

A PUBLISH and the push that it leads to differ in their first word alone, and a MULTI's pushes
arrive together and in order. So
what comes back is known to the byte, and a comparison of a whole batch replaces a parse of each
message. Where it does not fit,
somebody else's message stands in between; then each one is read, and known by its digest
(`codec.is_own_copy`).
"""

from collections import deque
from collections.abc import Sequence

from memrelay.bus.client.resp import head

PUSH = head(3, "message")


class EchoFilter:
    """What the listening connection is going to receive of our own."""

    def __init__(self) -> None:
        """Nothing was published yet."""
        self._expected: deque[bytes] = deque()  # of each MULTI, the pushes that it leads to
        self._at = 0  # how much of the first was received

    def expect(self, live: Sequence[bytes]) -> None:
        """What follows each PUBLISH that is about to be sent, in one MULTI, on channels that are
        subscribed to."""
        if live:
            self._expected.append(PUSH + PUSH.join(live))

    def skip(self, data: bytes) -> bytes:
        """What has to be read of `data`, which begins with a push or goes on with one that was
        skipped half.

        A push that is cut short is skipped as far as it came. Where it turns out to be somebody
        else's, it is given back whole.
        """
        start = 0
        while self._expected and start < len(data):
            first, size = self._expected[0], len(data) - start
            if size <= len(first) - self._at:
                fits = first.startswith(data[start:], self._at)
            else:
                size = len(first) - self._at
                fits = data.startswith(first[self._at :], start)
            if not fits:
                return self._take_back() + data[start:]
            self._advance(size)
            start += size
        return data[start:]

    def _take_back(self) -> bytes:
        """The beginning of the push that was skipped half; b"" where none was. It is expected
        again."""
        first, end = self._expected[0], self._at
        self._at = first.rfind(PUSH, 0, end + len(PUSH))
        return first[self._at : end]

    def passed(self, channel: bytes, payload: bytes) -> None:
        """An own copy was read the long way; if it is not what was expected next, nothing is any
        more."""
        push = b"%s$%d\r\n%s\r\n$%d\r\n%s\r\n" % (
            PUSH,
            len(channel),
            channel,
            len(payload),
            payload,
        )
        if not self._expected or not self._expected[0].startswith(push, self._at):
            self._expected.clear()
            self._at = 0
        else:
            self._advance(len(push))

    def _advance(self, size: int) -> None:
        self._at += size
        if self._at == len(self._expected[0]):
            self._expected.popleft()
            self._at = 0
