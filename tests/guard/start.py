"""usage: python -m tests.guard.start ARGUMENTS. Count the cost of batches in this process.

ARGUMENTS is JSON; see `measured_worker.main`.
"""

import json
import sys
from importlib import import_module

from tests.guard.probes import probes

if __name__ == "__main__":
    probes.install()
    # The worker's modules are imported after the probes are in place.
    import_module("tests.guard.measured_worker").main(probes, json.loads(sys.argv[1]))
