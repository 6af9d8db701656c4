"""The program of a try: `python -m memrelay.dry_run.child`, in an empty folder.

It imports what it needs once. Then it forks for each request on stdin, and the fork writes the
report to stdout. A fork has limits, no secrets, and can open no socket and start no program.
Requests and reports are JSON, each after its length in 4 bytes. The first report is empty: the
program is ready. A later empty one stands for a fork that was killed at a limit.
"""

import asyncio
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NoReturn

import msgspec
import orjson

from memrelay.blocks.registry import built_in_blocks
from memrelay.blocks.sources import use_folders
from memrelay.dry_run.recorder import Recorder
from memrelay.dry_run.run import Try, TryRequest
from memrelay.memory.engine.models import load
from memrelay.memory.errors import MemoryFault
from memrelay.pipelines.checked import BundleRefused
from memrelay.rehearsal.sandbox import enter_sandbox
from memrelay.testing.pipeline import MAKE_ENTRIES

# Seconds of processor time that a message may run, and of waiting on a busy machine or in a block.
MAX_RUN_S, MAX_WALL_S = 2.0, 8.0
# Seconds more until a blocked process is killed, and to copy the stores.
GRACE_S, MAX_COPY_S = 1.5, 10.0
LOOK_S = 0.05
# Bytes of the length before a request or report.
SIZE_BYTES = 4
MEMORY_BYTES, FILE_BYTES = 1 << 30, 512 << 20
# Seconds of processor time after the start.
MAX_PROCESSOR_S = 8
# It loads what most tries need: 0.5 s of work.
WARM_UP = {
    "agents": [
        {
            "agent_class": "wf_agent",
            "agent_alias": alias,
            "wf_agent_name": alias,
            "agent_rec_swarm": "chat",
            "agent_from": "User",
            "wf_diagram_webhook": block,
            "wf_webhook_args": {"memory_id": "instances/warm_up/m", **args},
        }
        for alias, block, args in (
            ("write", "memory_write", {}),
            ("find", "memory_search", {"mode": "hybrid", "output_template": "{{content}}"}),
        )
    ]
}


class Reporter:
    """Writes the only report, from any thread, and ends the process."""

    def __init__(self, output: int) -> None:
        self._output, self._lock = output, Lock()
        self._began = time.perf_counter()
        self.recorder = Recorder(self.stop)
        self.tried: Try | None = None

    def begin(self) -> None:
        """Start the time of the run. The try is stopped after MAX_RUN_S or MAX_WALL_S."""
        self._began = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, MAX_WALL_S + GRACE_S)
        signal.setitimer(signal.ITIMER_PROF, MAX_RUN_S + GRACE_S)
        Thread(target=self._stop_late, daemon=True).start()

    def stop(self, reason: str) -> NoReturn:
        """End with the steps so far."""
        self.end("stopped", reason)

    def end(self, status: str, reason: str = "") -> NoReturn:
        """Write the report and end."""
        self._lock.acquire()
        recorder = self.recorder
        steps = [one.as_json() for one in list(recorder.steps)]
        report: dict[str, Any] = {
            "status": status,
            "reason": reason,
            "took_ms": round(1000 * (time.perf_counter() - self._began), 1),
            "steps": steps,
            "published": [one for step in steps for one in step["output"]],
            "dead_letters": [] if self.tried is None else self.tried.dead_letters,
            "notes": list(recorder.notes),
        }
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        _write_frame(self._output, orjson.dumps(report))
        os._exit(0)

    def _stop_late(self) -> None:
        until_s, pause = time.process_time() + MAX_RUN_S, Event()
        while time.process_time() < until_s:
            if time.perf_counter() > self._began + MAX_WALL_S:
                self.stop(f"it waited for more than {MAX_WALL_S:g} s: look for a block that waits")
            pause.wait(LOOK_S)
        self.stop(
            f"it ran for more than {MAX_RUN_S:g} s: look for a loop, or for a text that is too long"
        )


def main() -> None:
    """Serve requests until stdin ends, each in a fork that has everything imported."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    built_in_blocks()
    load(MAKE_ENTRIES)
    _warm_up()
    _write_frame(output, b"")
    for number in count(1):
        data = _read_frame()
        if not data:
            break
        folder = Path(f"try{number}")
        folder.mkdir()
        child = os.fork()
        if not child:
            serve(data, folder, output)
        _, status = os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
        if status:
            _write_frame(output, b"")
    shutil.rmtree(Path.cwd(), ignore_errors=True)


def serve(data: bytes, folder: Path, output: int) -> NoReturn:
    """Run one request in this process, write its report, and end."""
    # The signal ends the process also while a library holds the interpreter.
    signal.setitimer(signal.ITIMER_REAL, MAX_COPY_S)
    request = msgspec.json.decode(data, type=TryRequest)
    runner = asyncio.Runner()
    runner.get_loop()  # it has sockets, which the sandbox refuses
    used_s = resource.getrusage(resource.RUSAGE_SELF)
    processor_s = int(used_s.ru_utime + used_s.ru_stime) + MAX_PROCESSOR_S
    enter_sandbox(MEMORY_BYTES, processor_s, FILE_BYTES, niceness=5)
    use_folders([Path(one) for one in request.block_folders])
    reporter = Reporter(output)
    try:
        tried = reporter.tried = Try(request, folder, reporter.recorder)
        reporter.begin()
        tried.run(runner)
    except (BundleRefused, MemoryFault) as error:
        reporter.end("failed", str(error))
    except MemoryError:
        reporter.end("stopped", f"it needs more than {MEMORY_BYTES >> 20} MiB of memory")
    letters = tried.dead_letters
    reporter.end("failed" if letters else "done", letters[0]["reason"] if letters else "")


def _warm_up() -> None:
    folder = Path("warm_up")
    folder.mkdir()
    now_ms = time.time_ns() // 1_000_000
    bundle = orjson.dumps(WARM_UP).decode()
    request = TryRequest(bundle, "warm_up", "UTC", "What did I drink yesterday?", now_ms, "chat")
    with asyncio.Runner() as runner, closing(Try(request, folder, Recorder(print))) as tried:
        tried.run(runner)


def _read_frame() -> bytes:
    """Return the next request, b"" at the end."""
    size = sys.stdin.buffer.read(SIZE_BYTES)
    return sys.stdin.buffer.read(int.from_bytes(size)) if size else b""


def _write_frame(output: int, data: bytes) -> None:
    left = memoryview(len(data).to_bytes(SIZE_BYTES) + data)
    while left:
        left = left[os.write(output, left) :]


if __name__ == "__main__":
    main()
