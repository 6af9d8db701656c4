"""Measures the response time of a pipeline while a fault affects another one."""

import time
from collections.abc import Callable

from tests.support.bundles import make_bundle, make_uid
from tests.support.system import TestSystem

LEAST = 20  # answers


class Probe:
    """A pipeline that is called repeatedly."""

    def __init__(self, system: TestSystem) -> None:
        """Deploy it, and call it once to create its store."""
        self._system, self._uid = system, make_uid()
        system.deploy(make_bundle(self._uid))
        self._ask()

    def slowest_s(self, until: Callable[[], object], within_s: float = 60.0) -> float:
        """Return the longest response time over at least LEAST answers and until a condition
        holds.
        """
        times: list[float] = []
        deadline = time.monotonic() + within_s
        while len(times) < LEAST or not until():
            assert time.monotonic() < deadline, f"waited {within_s:g} s in vain"
            times.append(self._ask())
        return max(times)

    def _ask(self) -> float:
        """Return the seconds until the right answer."""
        began = time.monotonic()
        assert "guid" in self._system.client.answer(self._uid, "/write still here")
        return time.monotonic() - began
