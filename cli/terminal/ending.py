"""A command that is told to end removes what it has half made, as after Ctrl-C; by itself Python
ends on the spot."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALLED = 128  # and the signal's number: the exit code that a shell tells


def end_orderly() -> None:
    """From now on, unless SIGHUP was ignored from the start, as `nohup` has it. What serves has
    handlers of its own.

    To be called in the main thread.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(SIGNALLED + number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends what is done here where it is: a loop would only cancel its task, which hears of
    that when it waits next."""
    later = signal.getsignal(signal.SIGINT)
    if later is signal.SIG_IGN:  # as of a job in the background
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, later)
