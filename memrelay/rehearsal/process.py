"""Starts the child process of a rehearsal, and reports why it ended."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from memrelay.rehearsal.child import describe, read_progress
from memrelay.rehearsal.setup import REPORT, read_setup

# The whole environment of the process: it has no secrets.
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
# A process that waits for something uses no processor time.
LONGEST_S = 3600.0
# Characters of the last line that the process wrote.
MAX_REASON = 300


class RehearsalProcess:
    """One child process. `run` belongs to one thread, and `stop` may be called by any."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = ""
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, longest_s: float = LONGEST_S) -> dict[str, Any]:
        """Run the rehearsal to its end and return the report."""
        log = self._folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "memrelay.rehearsal.child", str(self._folder)],
                # Its end tells the process that the worker is gone.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=ENVIRONMENT | {"PYTHONPATH": str(Path(__file__).parents[2])},
                start_new_session=True,
            )
        if self._stopped:
            self._process.kill()
        with self._process:
            try:
                code = self._process.wait(longest_s)
            except subprocess.TimeoutExpired:
                self.stop(f"it took longer than {longest_s:g} s")
                code = self._process.wait()
        report = self._folder / REPORT
        if code == 0 and not self._stopped and report.exists():
            found: dict[str, Any] = orjson.loads(report.read_bytes())
            return found
        reason = self._stopped or f"{read_progress(self._folder)}{self._explain(code, log)}"
        return describe(read_setup(self._folder), "failed", reason)

    def stop(self, reason: str) -> None:
        """End the process. The report has the reason."""
        self._stopped = reason
        if self._process is not None:
            self._process.kill()

    def _explain(self, code: int, log: Path) -> str:
        setup = read_setup(self._folder)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"it used more than {setup.processor_s} s of processor time; look for a loop"
        if code == -signal.SIGXFSZ:
            return "a file became too large"
        lines = log.read_text(errors="replace").strip().splitlines() or [""]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the process ended with {how}: {lines[-1][:MAX_REASON]}".rstrip(": ")
