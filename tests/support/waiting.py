"""Waiting for a condition, with a time limit."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LOOK_AGAIN_S, AT_MOST_S = 0.002, 0.02
# pause as a fraction of the time waited so far: an expensive check must not slow down what it
# checks
AGAIN_SHARE = 0.02
PATIENCE_S = 100.0  # for a busy machine; slow results are measured elsewhere
LATE_S = 30.0  # what a busy machine may add to a promised time; the measured figures are reported


def wait_for(look: Callable[[], Found], what: str, within_s: float = PATIENCE_S) -> Found:
    """Return the first true result of `look`. Raises AssertionError after the time limit."""
    began = time.monotonic()
    while not (found := look()):
        waited_s = time.monotonic() - began
        assert waited_s < within_s, f"waited {within_s:g} s in vain: {what}"
        time.sleep(min(max(LOOK_AGAIN_S, waited_s * AGAIN_SHARE), AT_MOST_S))
    return found
