"""Where `memrelay` begins: Ctrl-C while the program is still being loaded ends it without a
traceback, as a later one does."""

import importlib
import signal


def main() -> None:
    """The entry point."""
    later = signal.getsignal(signal.SIGINT)
    if (
        later is signal.default_int_handler
    ):  # else it is ignored, as of a job in the background, and stays so
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = importlib.import_module("memrelay.cli.main")
    if later is signal.default_int_handler:
        signal.signal(signal.SIGINT, later)
    program.main()
