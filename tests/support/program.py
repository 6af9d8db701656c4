"""The real program as a user starts it: `python -m cli.main ...` in a folder of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from memrelay.bus.embedded.launcher import socket_of
from tests.support.child import CHECKOUT
from tests.support.client import Client
from tests.support.waiting import wait_for

COMMAND = [sys.executable, "-m", "memrelay.cli.main"]


class Ended(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


class Program:
    """Use it as a context: at its end nothing runs and the folder is gone."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._stack = ExitStack()
        self._up: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """A folder to live in."""
        self.folder = Path(tempfile.mkdtemp(prefix="memrelay-test-"))
        self._stack.callback(self._remove_folder)
        self.root, self.bus, self._said = (
            self.folder / "memory",
            self.folder / "bus",
            self.folder / "up.log",
        )
        ours = {
            "MEMRELAY_MEMORY__ROOT": str(self.root),
            "MEMRELAY_BUS__DATA": str(self.bus),
            "PYTHONPATH": str(CHECKOUT),
            "MEMRELAY_WEB__PORT": "0",
        }
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")
        } | ours
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends what runs."""
        if self._up is not None and self._up.poll() is None:
            self._up.kill()
            self._up.wait()
        self._stack.close()

    def _remove_folder(self) -> None:
        """A server whose program was killed may be writing yet."""

        def gone() -> bool:
            shutil.rmtree(self.folder, ignore_errors=True)
            return not self.folder.exists()

        wait_for(gone, "the folder is gone")

    @property
    def said(self) -> str:
        """What `up` has written to stdout and stderr, over all its runs."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def run(self, *arguments: str | Path, within_s: float = 120.0, **environment: str) -> Ended:
        """Runs a command to its end."""
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def up(self, *command: str) -> None:
        """Starts `memrelay up`, or another command that serves, and waits until it says what to
        try."""
        start = len(self.said)
        with self._said.open("ab") as file:
            self._up = subprocess.Popen(
                [*COMMAND, *(command or ("up",))],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        mark = "pipelines_served" if command else "Ctrl-C ends it"
        wait_for(lambda: mark in self.said[start:] or self._up.poll() is not None, "it is up")
        assert self._up.poll() is None, self.said[start:]

    def end(self, signal_number: int = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Sends `up` a signal; its exit code."""
        assert self._up is not None
        os.kill(self._up.pid, signal_number)
        return self._up.wait(within_s)

    def client(self) -> Client:
        """A Redis client on the program's bus."""
        socket = socket_of(self.bus)
        assert socket is not None
        return self._stack.enter_context(Client(socket))

    def server_pid(self) -> int:
        """The embedded server's process."""
        return int(self.client().redis.info("server")["process_id"])
