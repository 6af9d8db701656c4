"""usage: python -m tests.support.run_program COMMAND. `memrelay COMMAND`, which a killed test run
does not leave behind."""

import ctypes
import signal
import sys

from memrelay.cli.main import main

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    main()
