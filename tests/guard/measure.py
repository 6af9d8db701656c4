"""Measure the cost of batches in a separate process."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.child import CHECKOUT
from tests.support.server import running_server

SIZES = (1, 16, 256)
TIMEOUT_S = 120
# By "write 16" and such, then by the name of the count.
Costs = dict[str, dict[str, int]]


def measure(sizes: Sequence[int] = SIZES, block: str = "memory_write") -> Costs:
    """Return what one batch of each size costs; `block` writes. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="guard") as name:
        folder = Path(name)
        with running_server(folder / "bus") as server:
            arguments = {
                "socket": str(server.socket_path),
                "folder": name,
                "sizes": sizes,
                "block": block,
            }
            environment = {
                key: value for key, value in os.environ.items() if not key.startswith("MEMRELAY_")
            }
            done = subprocess.run(
                [sys.executable, "-m", "tests.guard.start", json.dumps(arguments)],
                cwd=CHECKOUT,
                # The order of sets must not change from run to run.
                env=environment | {"PYTHONHASHSEED": "0"},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
    assert done.returncode == 0, done.stderr
    costs: Costs = json.loads(done.stdout.splitlines()[-1])
    return costs
