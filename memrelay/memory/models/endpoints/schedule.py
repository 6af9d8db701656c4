"""When a delivery is tried again, and when an endpoint is switched off.

The source is specs/relay.md, section 2, with decision P19. Times are Unix ms.
"""

from collections.abc import Callable
from typing import NamedTuple

from memrelay.memory.models.endpoints.table import (
    DAY_MS,
    DELIVERED,
    FAILED,
    Delivery,
    Endpoint,
)

MINUTE_S, HOUR_S = 60, 3600
# Seconds from a failed try to the next one.
PAUSES_S = (5, 5 * MINUTE_S, 30 * MINUTE_S, 2 * HOUR_S, 5 * HOUR_S, 10 * HOUR_S, 10 * HOUR_S)
MOST_JITTER = 0.2
# After so many failures in a row, of any deliveries, an endpoint gets one try a minute.
CIRCUIT_FAILURES, PROBE_MS = 5, 60_000
OFF_AFTER_MS = 5 * DAY_MS
# An ordered endpoint refuses with these for good, so that the events after it need not wait.
FINAL_STATUS, FINAL_TRIES = frozenset((400, 401, 403, 404, 413, 422)), 3
GONE, BUSY = 410, frozenset((429, 503))
MAX_RETRY_AFTER_S = 24 * HOUR_S


class Answer(NamedTuple):
    """The answer to a try.

    `status` is the HTTP status, 0 without an answer. `text` is the beginning of the answer, or why
    there was none. `retry_after_s` is the pause that the receiver asks for, 0 for none. With
    `is_final`, no request was made or ever will be. That says nothing about the receiver.
    """

    status: int
    text: str
    took_ms: int = 0
    retry_after_s: float = 0.0
    is_final: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the receiver accepted the delivery."""
        return 200 <= self.status < 300

    @property
    def summary(self) -> str:
        """The status, or why there was no answer."""
        return str(self.status) if self.status else self.text[:200]


def after_try(
    endpoint: Endpoint, delivery: Delivery, answer: Answer, now_ms: int, random: Callable[[], float]
) -> tuple[Endpoint, Delivery]:
    """Return an endpoint and a delivery as they are after a try. `random` is from 0 to 1."""
    tries = delivery.tries + 1
    if answer.is_success:
        return (
            endpoint._replace(
                failures=0, failing_since=None, last_at=now_ms, last_answer=answer.summary
            ),
            delivery._replace(state=DELIVERED, tries=tries, ended_at=now_ms),
        )
    if answer.is_final:
        return endpoint, delivery._replace(state=FAILED, tries=tries, ended_at=now_ms)
    since = now_ms if endpoint.failing_since is None else endpoint.failing_since
    endpoint = endpoint._replace(
        failures=endpoint.failures + 1,
        failing_since=since,
        last_at=now_ms,
        last_answer=answer.summary,
    )
    if answer.status == GONE:
        endpoint = endpoint._replace(disabled="the receiver answered 410: it is gone")
    elif now_ms - since >= OFF_AFTER_MS:
        endpoint = endpoint._replace(
            disabled=f"no success for 5 days; the last answer: {answer.summary}"
        )
    is_refused = endpoint.spec.ordered and answer.status in FINAL_STATUS and tries >= FINAL_TRIES
    if tries > len(PAUSES_S) or is_refused or answer.status == GONE:
        return endpoint, delivery._replace(state=FAILED, tries=tries, ended_at=now_ms)
    pause_s = PAUSES_S[tries - 1] * (1 + MOST_JITTER * random())
    if answer.status in BUSY and answer.retry_after_s:
        pause_s = min(answer.retry_after_s, MAX_RETRY_AFTER_S)
    return endpoint, delivery._replace(tries=tries, due=now_ms + int(pause_s * 1000))


def is_open(endpoint: Endpoint) -> bool:
    """Return whether the circuit is open: only one try a minute is made."""
    return endpoint.failures >= CIRCUIT_FAILURES


def next_probe_ms(endpoint: Endpoint) -> int:
    """Return when an endpoint with an open circuit may be tried again."""
    return (endpoint.last_at or 0) + PROBE_MS
