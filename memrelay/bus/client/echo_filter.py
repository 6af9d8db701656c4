"""Skips the worker's own live copies when they come back on the subscribed connection.

A PUBLISH and its push differ only in their first word, and the pushes of one MULTI arrive together
and in order. So the bytes that come back are known in advance. Comparing a whole batch replaces
parsing each message. If the bytes differ, another client's message is in between. Then each
message is parsed, and own copies are recognized by their digest (`codec.is_own_copy`).
"""

from collections import deque
from collections.abc import Sequence

from memrelay.bus.client.resp import head

PUSH = head(3, "message")


class EchoFilter:
    """The pushes that the subscribed connection is expected to receive."""

    def __init__(self) -> None:
        self._expected: deque[bytes] = deque()  # the pushes of each MULTI
        self._at = 0  # bytes of the first one that were received

    def expect(self, live: Sequence[bytes]) -> None:
        """Expect the pushes of one MULTI, given the packed words after each PUBLISH.

        All its channels must be subscribed to.
        """
        if live:
            self._expected.append(PUSH + PUSH.join(live))

    def skip(self, data: bytes) -> bytes:
        """Return the part of `data` that must be parsed.

        `data` begins with a push, or continues one of which the first part was skipped. If the
        rest shows that it was another client's push, the result begins with the skipped part.
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
        """Return the skipped beginning of the current push, and expect that push again."""
        first, end = self._expected[0], self._at
        self._at = first.rfind(PUSH, 0, end + len(PUSH))
        return first[self._at : end]

    def passed(self, channel: bytes, payload: bytes) -> None:
        """Record that an own copy was parsed.

        If it is not the next expected push, nothing is expected any more.
        """
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
