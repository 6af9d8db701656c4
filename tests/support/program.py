"""Run commands in this process and servers as processes, in a temporary folder."""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from memrelay.bus.embedded.launcher import find_socket
from memrelay.cli.main import run_command
from memrelay.cli.settings import use_environment
from tests.support.child import (
    CHECKOUT,
    Process,
    environment_without_settings,
    run_python,
    start_python,
)
from tests.support.client import Client
from tests.support.waiting import wait_for

MODULE = "memrelay.cli.main"
COMMAND = [sys.executable, "-m", MODULE]
# Commands that change their process: signal handlers, collector, allocator, file handles.
SERVING = ("up", "worker", "web", "bus")


class Completed(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


class Program:
    """Memrelay in a temporary folder. Use it as a context: it ends `up` and removes the folder."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._up: Process | None = None

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="memrelay-test-"))
        self._stack.callback(self._remove_folder)
        self.root, self.bus = self.folder / "memory", self.folder / "bus"
        self._log = self.folder / "up.log"
        self.environment = environment_without_settings() | {
            "MEMRELAY_MEMORY__ROOT": str(self.root),
            "MEMRELAY_BUS__DATA": str(self.bus),
            "PYTHONPATH": str(CHECKOUT),
            "MEMRELAY_WEB__PORT": "0",
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._up is not None and self._up.poll() is None:
            self._up.kill()
            self._up.wait()
        self._stack.close()

    def _remove_folder(self) -> None:
        """Remove the folder, to which the server of a killed program may still write."""

        def is_removed() -> bool:
            shutil.rmtree(self.folder, ignore_errors=True)
            return not self.folder.exists()

        wait_for(is_removed, "the folder is removed")

    @property
    def output(self) -> str:
        """The output of `up`, over all its runs."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def run(self, *arguments: str | Path, stdin: bytes = b"", **environment: str) -> Completed:
        """Run a command to its end, in this process if possible."""
        words = [str(word) for word in arguments]
        return run_anywhere(words, self.folder, self.environment | environment, stdin)

    def run_process(
        self, *arguments: str | Path, stdin: bytes = b"", **environment: str
    ) -> Completed:
        """Run a command to its end as a real process, in a fresh interpreter."""
        words = [str(word) for word in arguments]
        everything = self.environment | environment
        return run_as_process(words, self.folder, everything, stdin, fresh=True)

    def up(self, *command: str) -> None:
        """Start `memrelay up`, or another serving command, and wait until it serves."""
        start = len(self.output)
        words, environment = command or ("up",), self.environment
        with self._log.open("ab") as file, open(os.devnull, "rb") as nothing:
            self._up = start_python(MODULE, words, self.folder, environment, (nothing, file, file))
        mark = "pipelines_served" if command else "Press Ctrl-C to stop"
        wait_for(lambda: mark in self.output[start:] or self._up.poll() is not None, "it is up")
        assert self._up.poll() is None, self.output[start:]

    def end(self, signal_number: int = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Send `up` a signal and return its exit code."""
        assert self._up is not None
        os.kill(self._up.pid, signal_number)
        return self._up.wait(within_s)

    def client(self) -> Client:
        """Return a Redis client on the program's bus."""
        socket = find_socket(self.bus)
        assert socket is not None
        return self._stack.enter_context(Client(socket))

    def server_pid(self) -> int:
        """Return the process id of the embedded server."""
        return int(self.client().redis.info("server")["process_id"])


def run_anywhere(
    words: list[str], folder: Path, environment: Mapping[str, str], stdin: bytes = b""
) -> Completed:
    """Run a command in this process, or as a process if it would disturb this one.

    Standard streams and the current folder belong to the process, so only the main thread runs
    commands, and only outside an event loop.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if (words[:1] and words[0] in SERVING) or not is_main_thread or _has_running_loop():
        return run_as_process(words, folder, environment, stdin)
    return run_here(words, folder, environment, stdin)


def run_as_process(
    words: list[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    within_s: float = 120.0,
    *,
    fresh: bool = False,
) -> Completed:
    """Run a command to its end as a real process."""
    done = run_python(MODULE, words, folder, environment, stdin, within_s=within_s, fresh=fresh)
    return Completed(done.code, done.out.decode(), done.err.decode())


def run_here(
    words: list[str], folder: Path, environment: Mapping[str, str], stdin: bytes = b""
) -> Completed:
    """Run a command in this process, with its own streams, folder, logs and environment."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        stack.enter_context(_current_folder(folder))
        stack.enter_context(_own_logging())
        stack.enter_context(use_environment(environment))
        streams = stack.enter_context(_standard_streams(files))
        code = _exit_code_of(words)
        for stream in streams[1:]:
            stream.flush()
        out, err = (_read_all(file) for file in files[1:])
    return Completed(code, out, err)


def _exit_code_of(words: list[str]) -> int:
    hook = sys.excepthook
    try:
        run_command(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    finally:
        # typer installs its hook in each run.
        sys.excepthook = hook
    raise AssertionError("a command ends with SystemExit")


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _standard_streams(files: list[IO[bytes]]) -> Iterator[list[TextIOWrapper]]:
    """Replace stdin, stdout and stderr by files, since commands use their descriptors."""
    before = sys.stdin, sys.stdout, sys.stderr
    streams = [
        TextIOWrapper(os.fdopen(os.dup(file.fileno()), mode), "utf-8", "backslashreplace")
        for file, mode in zip(files, ("rb", "wb", "wb"), strict=True)
    ]
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield streams
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in streams:
            stream.close()


def _read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def _current_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Let the command configure logging, and restore the handlers of pytest afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
