"""usage: startup.py BASE OTHER [--rounds N] [--json FILE]. Compare the start and the memory of
`memrelay worker` in two checkouts.

BASE and OTHER are folders with a `.venv`. In each round, both start once, in alternating order, on
a memory root with one pipeline. Measures the processor time until the worker serves the pipeline,
and its resident memory a second later. Prints the medians and the median ratio of OTHER to BASE
with its 95 % interval (percentile bootstrap). Linux only.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import make_parser, temporary_bus, write_result

ROUNDS = 12
# After the start, until the memory is measured.
SETTLE_S = 1.0
READY = "pipelines_served"
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
RESAMPLES, SEED = 10_000, 2026


class Start(NamedTuple):
    """The cost of one start."""

    cpu_s: float
    rss_mib: float


class Checkout:
    """A checkout with its bus and memory root."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Deploy one pipeline."""
        work, server = stack.enter_context(temporary_bus("startup"))
        self._folder, self._program = folder, folder / ".venv/bin/memrelay"
        # Without bytecode, each start would compile all modules.
        inherited = {key: value for key, value in os.environ.items() if key != NO_BYTECODE}
        self._settings = inherited | {
            "MEMRELAY_BUS__URL": f"unix://{server.socket_path}",
            "MEMRELAY_MEMORY__ROOT": str(work / "memory"),
            "MEMRELAY_LOG__FORMAT": "json",
        }
        bundle = work / "bundle.json"
        bundle.write_text(json.dumps(make_bundle("bench")))
        subprocess.run(
            [self._program, "deploy", bundle],
            env=self._settings,
            cwd=folder,
            check=True,
            capture_output=True,
        )

    def start(self) -> Start:
        """Start a worker, measure it and end it."""
        process = subprocess.Popen(
            [self._program, "worker"],
            env=self._settings,
            cwd=self._folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            while json.loads(process.stderr.readline())["event"] != READY:
                pass
            cpu_s = _read_cpu_s(process.pid)
            time.sleep(SETTLE_S)
            return Start(cpu_s, _read_rss_mib(process.pid))
        finally:
            process.terminate()
            process.communicate(timeout=20)


def _read_cpu_s(pid: int) -> float:
    """Return the processor time of a process, from its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def _read_rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    rss_kib = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(rss_kib) / 1024


def measure(folders: Sequence[Path], rounds: int) -> list[list[Start]]:
    """Return the starts of each checkout, by round."""
    with ExitStack() as stack:
        checkouts = [Checkout(folder, stack) for folder in folders]
        for checkout in checkouts:  # compiles modules and fills the file cache
            checkout.start()
        starts: list[list[Start]] = [[], []]
        for number in range(rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for one in order:
                starts[one].append(checkouts[one].start())
        return starts


def compare(base: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Return the medians, and the median ratio of the rounds with its interval."""
    ratios = np.asarray(other) / np.asarray(base)
    drawn = np.random.default_rng(SEED).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [0.025, 0.975])
    return {
        "base": statistics.median(base),
        "other": statistics.median(other),
        "ratio": float(np.median(ratios)),
        "low": float(low),
        "high": float(high),
    }


def main() -> None:
    parser = make_parser(__doc__, ROUNDS)
    parser.add_argument("base", type=Path)
    parser.add_argument("other", type=Path)
    options = parser.parse_args()
    starts = measure([options.base.resolve(), options.other.resolve()], options.rounds)
    result = {
        name: compare(*([getattr(start, name) for start in of_one] for of_one in starts))
        for name in Start._fields
    }
    print(f"{'':10}{'base':>9}{'other':>9}{'ratio':>9}  95 % interval")
    for name, found in result.items():
        print(
            f"{name:10}{found['base']:9.3f}{found['other']:9.3f}{found['ratio']:9.3f}"
            f"  {found['low']:.3f} to {found['high']:.3f}"
        )
    write_result({"rounds": options.rounds, "starts": starts, "result": result}, options.json)


if __name__ == "__main__":
    main()
