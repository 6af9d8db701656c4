"""Waiting for something to become true, with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LOOK_AGAIN_S, AT_MOST_S = 0.002, 0.02
# of what was waited so far: looking at what takes long takes the machine from what is looked at
AGAIN_SHARE = 0.02
PATIENCE_S = 60.0  # with a machine that has other things to do; what is slow is measured elsewhere
LATE_S = 15.0  # what such a machine may add to a time that is promised; the figures are told


def wait_for(look: Callable[[], Found], what: str, within_s: float = PATIENCE_S) -> Found:
    """The first thing that `look` finds which is not false, empty or None; AssertionError when the
    time is over."""
    began = time.monotonic()
    while not (found := look()):
        waited_s = time.monotonic() - began
        assert waited_s < within_s, f"waited {within_s:g} s in vain: {what}"
        time.sleep(min(max(LOOK_AGAIN_S, waited_s * AGAIN_SHARE), AT_MOST_S))
    return found
