"""Waiting for something to become true, with an end."""
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LOOK_AGAIN_S = 0.002
PATIENCE_S = 60.0   # with a machine that has other things to do; what is slow is measured elsewhere
LATE_S = 15.0   # what such a machine may add to a time that is promised; the figures are told


def wait_for(look: Callable[[], Found], what: str, within_s: float = PATIENCE_S) -> Found:
    """The first thing that `look` finds which is not false, empty or None; AssertionError when the time is over."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain: {what}"
        time.sleep(LOOK_AGAIN_S)
    return found
