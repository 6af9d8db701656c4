"""Counts deliveries of one pipeline for /metrics, and lists endpoints in trouble."""

import time
from collections.abc import Iterable
from typing import Any

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.endpoints.endpoints import BY_USER, show_url
from memrelay.memory.models.endpoints.schedule import Answer
from memrelay.memory.models.endpoints.table import (
    NO_LONGER_DECLARED,
    Endpoint,
    EndpointTable,
)
from memrelay.worker.metrics import Latency

# Endpoints in trouble that a report names; others are counted.
MAX_NAMED = 5
# Counting takes at most one part in so many of the time, and is at least so many seconds apart.
COUNT_SHARE, COUNT_PAUSE_S = 50, 2.0


class DeliveryFigures:
    """Counts tries since the worker took the pipeline, and reads the state of the endpoints.

    It is used in the database thread while the loop waits. `read` is used in the loop.
    """

    def __init__(self) -> None:
        self._tries = self._delivered = 0
        self._duration = Latency()
        self._state: dict[str, Any] = {}
        self._next_s = 0.0
        # Whether the state may differ from what was read.
        self.is_outdated = False

    @property
    def is_sound(self) -> bool:
        """Whether the state was read and names no endpoint in trouble."""
        return not self.is_outdated and not self._state.get("trouble")

    def count(self, answers: Iterable[Answer]) -> None:
        """Count tries with their answers."""
        for answer in answers:
            self._tries += 1
            self._delivered += answer.is_success
            self._duration.observe(answer.took_ms / 1000)

    def refresh(self, table: EndpointTable) -> None:
        """Read the state of the endpoints, unless that was done a moment ago."""
        began_s = time.monotonic()
        self.is_outdated = began_s < self._next_s
        if self.is_outdated:
            return
        endpoints = table.all()
        counts = [table.count_open(one.id) for one in endpoints]
        trouble = [
            one
            for one in endpoints
            if (one.disabled or one.failing_since is not None)
            and one.disabled != NO_LONGER_DECLARED
        ]
        self._state = {
            "endpoints": len(endpoints),
            "waiting": sum(waiting for waiting, _ in counts),
            "failed": sum(failed for _, failed in counts),
            "failing": sum(not one.disabled for one in trouble),
            "off": sum(one.disabled not in ("", BY_USER) for one in trouble),
            "trouble": [_describe(one) for one in trouble[:MAX_NAMED]],
        }
        ended_s = time.monotonic()
        self._next_s = ended_s + max(COUNT_PAUSE_S, COUNT_SHARE * (ended_s - began_s))

    def read(self) -> dict[str, Any] | None:
        """Return the figures and the endpoints in trouble. None before they are known, and for a
        pipeline without endpoints.
        """
        if not self._state.get("endpoints"):
            return None
        return self._state | {
            "tries": self._tries,
            "delivered": self._delivered,
            "duration": self._duration.read(),
        }


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    """Return what `memrelay doctor` says about an endpoint, without the path of its URL."""
    since = endpoint.failing_since
    return {
        "id": endpoint.id,
        "url": show_url(endpoint.spec.url),
        "disabled": endpoint.disabled,
        "is_paused": endpoint.disabled == BY_USER,
        "failing_since": None if since is None else format_time(since),
        "last_answer": endpoint.last_answer,
    }
