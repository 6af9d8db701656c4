"""usage: capture.py [--rounds N] [--json FILE]. Measure what capture adds to an event.

In each round, the hook handles one event as a coding tool starts it, and `python3 -I -S -c pass`
runs, in alternating order. Prints p50 and p95 of both, the difference of their p95 (all in ms), and
the median difference of their processor times. Rows: a prompt and the start of a session, while the
server runs and while it is dead. The senders that the hook starts run beside them, as for a user.
Bound: 50 ms for a prompt. POSIX only.
"""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from memrelay.capture.configuration import Configuration, copy_hook, find_paths, save
from memrelay.capture.spool import find_sender

UID = "bench"
ROUNDS, WARM_UP = 200, 5
SETTLE_S = 5.0
BOUND_MS = 50
PROMPT = (
    "In src/server/limits.py the token bucket refuses a request with the password of a test user. "
    "Look at https://example.com/issues/12 and at the log below, and fix it with a test first. "
)
LOG = "2026-11-29 08:00:01 INFO Request 42 took 12 ms (path /v1/Records, Status 200)\n"
PLAIN = ("python3", "-I", "-S", "-c", "pass")


class Run(NamedTuple):
    """The time of one run and its processor time, ms."""

    ms: float
    cpu_ms: float


class Row(NamedTuple):
    """Runs for one kind of event."""

    name: str
    hook: list[Run]
    plain: list[Run]

    def summary(self) -> dict[str, Any]:
        """Return the figures, ms."""
        figures = {
            f"{program}_p{share}": round(find_percentile([run.ms for run in runs], share), 1)
            for program, runs in (("hook", self.hook), ("plain", self.plain))
            for share in (50, 95)
        }
        added = figures["hook_p95"] - figures["plain_p95"]
        hook, plain = (statistics.median(one.cpu_ms for one in runs) for runs in self[1:])
        return {"name": self.name, **figures, "added_p95": round(added, 1)} | {
            "plain_cpu": round(plain, 1),
            "added_cpu": round(hook - plain, 1),
        }


def find_percentile(times: Sequence[float], share: int) -> float:
    """Return a percentile of at least two times."""
    return statistics.quantiles(times, n=100, method="inclusive")[share - 1]


@contextmanager
def running_server() -> Iterator[str]:
    """Yield the address of a server with a worker."""
    with temporary_bus("capture") as (folder, bus):
        processes, port = start_memrelay_processes(
            folder, bus.socket_path, make_bundle(UID), ("worker", "web")
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            stop_all(processes)


@contextmanager
def dead_server() -> Iterator[str]:
    """Yield an address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@contextmanager
def installed_hook(url: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the path of an installed hook and its environment, in a new home."""
    home = Path(tempfile.mkdtemp(prefix="capture-home"))
    paths = find_paths({}, home)
    save(paths, Configuration(url=url, pipeline=UID, user="ada", python=sys.executable))
    hook = copy_hook(paths)
    try:
        yield str(hook), {"HOME": str(home), "PATH": os.environ["PATH"]}
    finally:
        # A sender without a configuration ends, and one that waits for a dead server is killed.
        paths.configuration.unlink()
        time.sleep(SETTLE_S)
        if sender := find_sender(paths):
            os.kill(sender, signal.SIGKILL)
        shutil.rmtree(home)


def make_payload(event: str, number: int) -> bytes:
    """Return an event of Claude Code."""
    common = {"session_id": f"s{number}", "cwd": str(Path.cwd()), "hook_event_name": event}
    own = {"prompt": f"{number} {PROMPT}{LOG * 20}"} if event == "UserPromptSubmit" else {}
    return json.dumps(common | own | {"source": "startup"}).encode()


def measure(event: str, name: str, url: str, rounds: int) -> Row:
    """Run the hook and the plain program in alternating order."""
    row = Row(name, [], [])
    with installed_hook(url) as (hook, environment):
        command = ("python3", "-I", "-S", hook, "claude-code")
        for number in range(-WARM_UP, rounds):
            runs = [(command, make_payload(event, number), row.hook), (PLAIN, b"", row.plain)]
            for program, given, times in runs if number % 2 else reversed(runs):
                times.append(run(program, given, environment))
    return Row(name, row.hook[WARM_UP:], row.plain[WARM_UP:])


def run(program: Sequence[str], given: bytes, environment: dict[str, str]) -> Run:
    """Run a program with an input, and return when it has ended."""
    began = time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(program, env=environment, **pipes)  # type: ignore[call-overload]
    process.stdin.write(given)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    ms = 1000 * (time.perf_counter() - began)
    return Run(ms, 1000 * (usage.ru_utime + usage.ru_stime))


def main() -> None:
    """Measure and print the rows."""
    options = make_parser(__doc__, ROUNDS).parse_args()
    rows = []
    for state, serve in (("up", running_server), ("dead", dead_server)):
        with serve() as url:
            for event, title in (("UserPromptSubmit", "prompt"), ("SessionStart", "start")):
                rows.append(measure(event, f"{title}, server {state}", url, options.rounds))
                print(json.dumps(rows[-1].summary()), flush=True)
    slow = [one.name for one in rows if one.name.startswith("prompt") and not _is_fast(one)]
    write_result({"bound_ms": BOUND_MS, "rows": [one.summary() for one in rows]}, options.json)
    print("missed: " + ", ".join(slow) if slow else f"prompts: at most {BOUND_MS} ms, met")


def _is_fast(row: Row) -> bool:
    return float(row.summary()["added_p95"]) <= BOUND_MS


if __name__ == "__main__":
    main()
