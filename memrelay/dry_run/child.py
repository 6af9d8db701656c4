"""The program of a try: `python -m memrelay.dry_run.child`, in an empty folder.

It imports what it needs, waits for the request on stdin, and writes the report to stdout. It has
limits, no secrets, and can open no socket and start no program.
"""

import asyncio
import os
import resource
import sys
import time
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

# Seconds that a message may run.
MAX_RUN_S = 2.0
MEMORY_BYTES, FILE_BYTES = 1 << 30, 512 << 20
# Seconds of processor time after the start.
MAX_PROCESSOR_S = 8
TEMPLATE_ENGINE = "memrelay.blocks.template_engine:compile_template"


class Reporter:
    """Writes the only report, from any thread, and ends the process."""

    def __init__(self, output: int) -> None:
        self._output, self._lock = output, Lock()
        self._began = time.perf_counter()
        self.recorder = Recorder(self.stop)
        self.tried: Try | None = None

    def begin(self) -> None:
        """Start the time of the run. The try is stopped after MAX_RUN_S."""
        self._began = time.perf_counter()
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
        with os.fdopen(self._output, "wb") as file:
            file.write(orjson.dumps(report))
        os._exit(0)

    def _stop_late(self) -> None:
        Event().wait(MAX_RUN_S)
        self.stop(
            f"it ran for more than {MAX_RUN_S:g} s: look for a loop, or for a text that is too long"
        )


def main() -> None:
    """Serve one request."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # What most tries need takes most of the time.
    built_in_blocks()
    load(MAKE_ENTRIES), load(TEMPLATE_ENGINE)
    runner = asyncio.Runner()
    runner.get_loop()  # it has sockets, which the sandbox refuses
    data = sys.stdin.buffer.read()
    if not data:
        return
    request = msgspec.json.decode(data, type=TryRequest)
    used_s = resource.getrusage(resource.RUSAGE_SELF)
    processor_s = int(used_s.ru_utime + used_s.ru_stime) + MAX_PROCESSOR_S
    enter_sandbox(MEMORY_BYTES, processor_s, FILE_BYTES, niceness=5)
    use_folders([Path(one) for one in request.block_folders])
    reporter = Reporter(output)
    try:
        tried = reporter.tried = Try(request, Path.cwd(), reporter.recorder)
        reporter.begin()
        tried.run(runner)
    except (BundleRefused, MemoryFault) as error:
        reporter.end("failed", str(error))
    except MemoryError:
        reporter.end("stopped", f"it needs more than {MEMORY_BYTES >> 20} MiB of memory")
    letters = tried.dead_letters
    reporter.end("failed" if letters else "done", letters[0]["reason"] if letters else "")


if __name__ == "__main__":
    main()
