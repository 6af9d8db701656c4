"""The entry point of `memrelay`.

Ctrl-C ends the program without a traceback even while it is still being imported.
"""

import importlib
import signal


def main() -> None:
    """Import the command line and run it."""
    handler = signal.getsignal(signal.SIGINT)
    # A background job ignores Ctrl-C, and stays that way.
    is_default = handler is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = importlib.import_module("memrelay.cli.main")
    if is_default:
        signal.signal(signal.SIGINT, handler)
    program.main()
