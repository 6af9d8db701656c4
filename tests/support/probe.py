"""How long a pipeline takes to answer while something bad happens to another."""

import time
from collections.abc import Callable

from tests.support.bundles import make_bundle, make_uid
from tests.support.house import House

LEAST = 20  # answers


class Probe:
    """A pipeline of its own that is asked again and again."""

    def __init__(self, house: House) -> None:
        """Deploys it, and asks once, so that its store is there."""
        self._house, self._uid = house, make_uid()
        house.deploy(make_bundle(self._uid))
        self._ask()

    def slowest_s(self, until: Callable[[], object], within_s: float = 60.0) -> float:
        """The longest time to an answer, over at least LEAST answers and until something holds."""
        times: list[float] = []
        deadline = time.monotonic() + within_s
        while len(times) < LEAST or not until():
            assert time.monotonic() < deadline, f"waited {within_s:g} s in vain"
            times.append(self._ask())
        return max(times)

    def _ask(self) -> float:
        """Seconds from the question to its answer, which must be the right one."""
        began = time.monotonic()
        assert "guid" in self._house.client.answer(self._uid, "/write still here")
        return time.monotonic() - began
