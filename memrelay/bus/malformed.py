"""Counts the malformed messages that this process has dropped, and logs some of them."""

import time
from collections import Counter
from collections.abc import Callable

from memrelay.logs import get_logger

log = get_logger(__name__)
# Between two log lines about the same kind of message: a flood must not fill the log.
LOG_PAUSE_S = 10.0
# The kind of replies, which clients drop. Workers drop the others.
REPLY = "reply"
# Characters of a reason in the log.
MAX_REASON = 200


class MalformedMessages:
    """The number of dropped messages by kind, such as `question` or `reply`.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: Counter[str] = Counter()
        # By kind: when it was logged, and how many there were then.
        self._logged: dict[str, tuple[float, int]] = {}

    @property
    def replies(self) -> int:
        return self._counts[REPLY]

    @property
    def messages(self) -> int:
        """Return the number of dropped messages of all other kinds."""
        return self._counts.total() - self.replies

    def drop(self, kind: str, reason: object, pipeline: str = "") -> None:
        """Count a message that is dropped, and log it unless one of its kind was logged lately."""
        self._counts[kind] += 1
        now_s, (logged_s, before) = self._clock(), self._logged.get(kind, (float("-inf"), 0))
        if now_s - logged_s < LOG_PAUSE_S:
            return
        self._logged[kind] = now_s, self._counts[kind]
        log.warning(
            "malformed_messages_dropped",
            kind=kind,
            count=self._counts[kind] - before,
            pipeline=pipeline,
            reason=str(reason)[:MAX_REASON],
        )


# The counter of this process.
MALFORMED = MalformedMessages()
