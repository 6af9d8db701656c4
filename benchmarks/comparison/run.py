"""Compare Memrelay with other memories, and write the tables into docs/comparison.md.

    .venv/bin/python -m benchmarks.comparison.run --python /usr/bin/python3 --data FOLDER ...

Each system gets a new environment below build/comparison and runs alone. All get the same embedder.
The figures also go to benchmarks/results/comparison.json. A system that fails keeps its reason
there and is `not run` in the tables. mcp-memory-service needs a Python whose sqlite3 loads
extensions.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.comparison.environments import BUILD, ROOT, Installation, install
from benchmarks.comparison.systems import SYSTEMS
from benchmarks.comparison.tables import fill, render
from benchmarks.comparison.trial import read_memory
from benchmarks.recall.collection import BadData
from benchmarks.recall.data_sets import collections

PAGE = ROOT / "docs/comparison.md"
RESULTS = ROOT / "benchmarks/results/comparison.json"
WRITES = 500  # of each kind
# Syncs per write are the difference of two runs, so that opening the store is not counted.
FEW, MANY = 20, 120
TRACED = "trace=fsync,fdatasync,sync_file_range,msync"
TIMEOUT_S = 1800
# No peer reports its use or looks for a network.
QUIET = {
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "MEM0_TELEMETRY": "false",
    "ORT_DISABLE_TELEMETRY": "1",
    "OTEL_SDK_DISABLED": "true",
}


class Failed(Exception):
    """A peer ended with an error. The message is the end of its output."""


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--only", choices=SYSTEMS, nargs="+", default=list(SYSTEMS))
    parser.add_argument("--python", default=sys.executable, help="for the environments")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    try:
        data = [(folder, found) for folder in given.data for found in collections(folder)]
    except BadData as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()
    results: dict[str, Any] = {
        "machine": describe_machine(given.python),
        "quality": {},
        "speed": {},
    }
    installed = {name: report("installs", name, install, name, given.python) for name in SYSTEMS}
    results["installed"] = {
        name: {"seconds": one.seconds, "size_bytes": one.size_bytes, "version": one.version}
        for name, one in installed.items()
    }
    for name in given.only:
        with TemporaryDirectory(dir=BUILD) as folder, embedder(name, installed) as (url, process):
            runner = Runner(name, installed[name].python, Path(folder), url)
            results["quality"][name] = [
                report("answers", name, runner.measure_quality, path, index)
                for path in given.data
                for index in range(len(collections(path)))
            ]
            results["speed"][name] = report("writes", name, runner.measure_speed)
            if process is not None:
                results["embedder_rss_bytes"] = read_memory(str(process))
    results["seconds"] = time.monotonic() - began
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results) + "\n")
    parts = render(results, [found for _, found in data])
    given.page.write_text(fill(given.page.read_text(), parts))
    return 0


class Runner:
    """Runs the tasks of one system. A task that fails returns `{"failed": REASON}`."""

    def __init__(self, name: str, python: Path, folder: Path, embedder: str) -> None:
        self._system, self._python, self._folder = SYSTEMS[name], python, folder
        self._embedder = embedder

    def measure_quality(self, data: Path, index: int) -> dict[str, Any]:
        """Return the answers to a data set."""
        return self._try({"task": "quality", "data": str(data.resolve()), "collection": index})

    def measure_speed(self) -> dict[str, Any]:
        """Return the times of writes, the resident memory and the syncs of a write."""
        found = self._try({"task": "speed", "documents": WRITES})
        if "failed" not in found:
            found["syncs_per_write"] = self._count_syncs()
        return found

    def _count_syncs(self) -> float | None:
        if shutil.which("strace") is None:
            return None
        counts = []
        for documents in (FEW, MANY):
            trace = self._folder / "syncs"
            prefix = ["strace", "-f", "-qq", "-e", TRACED, "-e", "signal=none", "-o", str(trace)]
            with TemporaryDirectory(dir=self._folder) as folder:
                task = {"task": "writes", "documents": documents, "folder": folder}
                self._run(task, prefix)
            # A call that another thread interrupts has a second line, `<... resumed>`.
            lines = trace.read_text().splitlines()
            counts.append(sum("(" in line and "resumed>" not in line for line in lines))
        return (counts[1] - counts[0]) / (MANY - FEW)

    def _try(self, task: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._run({"folder": str(self._folder), **task}, [])
        except Failed as error:
            print(error, file=sys.stderr)
            return {"failed": str(error)}

    def _run(self, task: dict[str, Any], prefix: list[str]) -> dict[str, Any]:
        task |= {
            "module": self._system.module,
            "modes": list(self._system.modes),
            "embedder": self._embedder,
            "takes_vectors": self._system.takes_vectors,
        }
        done = subprocess.run(
            [*prefix, str(self._python), "-m", "benchmarks.comparison.trial"],
            input=json.dumps(task),
            env=make_environment(self._folder),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if done.returncode:
            raise Failed(done.stderr[-2000:])
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@contextmanager
def embedder(name: str, installed: dict[str, Installation]) -> Iterator[tuple[str, int | None]]:
    """Yield the embedder for a system and its process: the URL of a server, "local" or ""."""
    kind = SYSTEMS[name].embedder
    if kind != "server":
        yield ("" if kind == "none" else "local"), None
        return
    server = subprocess.Popen(
        [installed["memrelay-local"].python, "-m", "benchmarks.comparison.embedder"],
        env=make_environment(BUILD),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1", server.pid
    finally:
        server.terminate()
        server.wait()


def make_environment(home: Path) -> dict[str, str]:
    """Return the variables of a peer. Files that it writes into its home stay in the folder."""
    return QUIET | {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MEM0_DIR": str(home / "mem0"),
        "PYTHONPATH": str(ROOT),
    }


def describe_machine(python: str) -> dict[str, Any]:
    """Return what the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": time.strftime("%-d %B %Y"),
        "processors": os.cpu_count(),
        "model": models[0] if models else platform.machine(),
        "memory_gb": round(pages / 1e9),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": subprocess.check_output([python, "-V"], text=True).split()[1],
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def report(verb: str, name: str, run: Any, *arguments: Any) -> Any:
    """Call a function and print how long it took."""
    began = time.monotonic()
    result = run(*arguments)
    print(f"{name} {verb}: {time.monotonic() - began:.0f} s", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
