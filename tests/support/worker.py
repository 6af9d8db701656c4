"""A worker as a child process: started, told to end, killed, started again."""
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]


class WorkerProcess:
    """`python -m tests.support.run_worker`, with what it says in a file."""

    def __init__(self, socket: Path, root: Path, **config: Any) -> None:
        """Starts at once; `config` as run_worker takes it."""
        root.mkdir(parents=True, exist_ok=True)
        self._said = root.parent / "worker.log"
        given = json.dumps({"socket": str(socket), "root": str(root)} | config, default=str)
        self._start_of_log = self._said.stat().st_size if self._said.exists() else 0
        with self._said.open("ab") as file:
            self._process = subprocess.Popen([sys.executable, "-m", "tests.support.run_worker", given], cwd=CHECKOUT,
                                             stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """What this process wrote to stdout and stderr."""
        return self._said.read_bytes()[self._start_of_log:].decode(errors="replace")

    def await_ready(self, within_s: float = 20.0) -> None:
        """Waits until it takes what comes; it may still have to recover what was in flight."""
        assert self.lives_until(self._is_ready, within_s), f"the worker ended with {self._process.returncode}:\n{self.said}"

    def lives_until(self, holds: Callable[[], object], within_s: float = 20.0) -> bool:
        """Waits until something holds or the process has ended, and says whether it lives."""
        wait_for(lambda: holds() or not self.lives, f"what is waited for, or the worker's end:\n{self.said}", within_s)
        return self.lives

    def arm(self) -> None:
        """Lets one that was started with `armed` false count its steps from now on."""
        os.kill(self.pid, signal.SIGUSR1)
        wait_for(lambda: "armed" in self.said.splitlines(), "it is armed")

    def await_end(self, within_s: float = 20.0) -> int:
        """Its exit code."""
        wait_for(lambda: not self.lives, f"the worker has ended:\n{self.said}", within_s)
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL, as the kernel's memory killer would."""
        self._process.kill()
        self._process.wait()

    def stop(self, within_s: float = 20.0) -> int:
        """SIGTERM; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.await_end(within_s)

    def _is_ready(self) -> bool:
        return "ready" in self.said.splitlines()
