"""Crashes of a pipeline under test, which end its owner between two steps."""

from typing import Literal

Step = Literal["commit", "publish", "call"]
# The names of the steps in the worker.
BEFORE = {"commit": "before commit", "publish": "before sending", "call": "before call"}
AFTER = {"commit": "committed", "publish": "sent", "call": "call ended"}


class Crash(BaseException):
    """The process of the owner ends. Nothing in the product catches this."""


class Crashes:
    """The crashes that a test has scheduled. `count` is the number of those that happened."""

    def __init__(self) -> None:
        self.scheduled: list[str] = []
        self.count = 0

    def reach(self, step: str) -> None:
        """Note that the owner is at a step. Raises Crash if one is scheduled there."""
        if step in self.scheduled:
            self.scheduled.remove(step)
            self.count += 1
            raise Crash(step)

    def check_all_happened(self) -> None:
        """Raise AssertionError if the pipeline has not reached the step of a crash."""
        if self.scheduled:
            names = {step: f'crash_before("{name}")' for name, step in BEFORE.items()}
            names |= {step: f'crash_after("{name}")' for name, step in AFTER.items()}
            missed = ", ".join(names[step] for step in self.scheduled)
            raise AssertionError(f"the pipeline did not reach the step of {missed}")
