"""Signals that end a command: it removes half-written files, as it does after Ctrl-C.

By default, SIGTERM and SIGHUP end Python without cleanup.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A shell reports this number plus the signal as the exit code.
SIGNAL_EXIT_CODE = 128


def exit_on_signals() -> None:
    """Raise SystemExit on SIGTERM and SIGHUP. Call it in the main thread.

    SIGHUP stays ignored under `nohup`. Serving processes install their own handlers.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(SIGNAL_EXIT_CODE + number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt at once inside the context.

    An event loop would only cancel its task, which notices at its next await.
    """
    previous = signal.getsignal(signal.SIGINT)
    if previous is signal.SIG_IGN:
        # A background job ignores Ctrl-C.
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
