"""Child processes of Memrelay: start, wait, stop and kill; their output goes to a file.

They are forked from a process that has loaded the product, which saves a second per start. What a
test says about loading, memory, command lines, limits or signals at the start holds for a fresh
interpreter alone: `fresh=True`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

from tests.support.bundles import Json
from tests.support.forked import CHECKOUT, MAY_FORK, ForkedProcess
from tests.support.waiting import PATIENCE_S, wait_for

Process = ForkedProcess | subprocess.Popen[bytes]


class ChildProcess:
    """`python -m MODULE ARGUMENTS` in the checkout, without the MEMRELAY_ variables of this
    process.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        """Start the process. Several may share a log, one after the other; `environment` is
        added to the inherited one.
        """
        self._log, self._name = log, log.stem
        self._start_of_log = log.stat().st_size if log.exists() else 0
        everything = environment_without_settings() | dict(environment or {})
        with log.open("ab") as file, open(os.devnull, "rb") as nothing:
            self._process = start_python(
                module, arguments, CHECKOUT, everything, (nothing, file, file), fresh=fresh
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """Return the output of this process: stdout and stderr."""
        return self._log.read_bytes()[self._start_of_log :].decode(errors="replace")

    @property
    def events(self) -> list[Json]:
        """Return the logged events, if the process logs JSON."""
        return [
            json.loads(line)
            for line in self.output.splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def await_event(self, name: str, within_s: float = PATIENCE_S) -> Json:
        """Wait for the first logged event of that name, if the process logs JSON."""
        assert self.lives_until(lambda: self._first(name), within_s), self._obituary
        event = self._first(name)
        assert event is not None
        return event

    def await_ready(self, within_s: float = PATIENCE_S) -> None:
        """Wait until the process prints `ready`. A worker may have to recover entries first."""
        assert self.lives_until(lambda: "ready" in self.output.splitlines(), within_s), (
            self._obituary
        )

    def lives_until(self, holds: Callable[[], object], within_s: float = PATIENCE_S) -> bool:
        """Wait until a condition holds or the process ends; return whether it is alive."""
        wait_for(
            lambda: holds() or not self.lives,
            f"what is waited for, or the {self._name}'s end:\n{self.output}",
            within_s,
        )
        return self.lives

    def await_end(self, within_s: float = PATIENCE_S) -> int:
        """Return the exit code."""
        wait_for(lambda: not self.lives, f"the {self._name} has ended:\n{self.output}", within_s)
        return self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM without waiting."""
        self.send_signal(signal.SIGTERM)

    def stop(self, within_s: float = PATIENCE_S) -> int:
        """Send SIGTERM and return the exit code."""
        self.terminate()
        return self.await_end(within_s)

    def kill(self) -> None:
        """Send SIGKILL, as the kernel's out-of-memory killer does."""
        self._process.kill()
        self._process.wait()

    @property
    def _obituary(self) -> str:
        return f"the {self._name} ended with {self._process.returncode}:\n{self.output}"

    def _first(self, name: str) -> Json | None:
        return next((event for event in self.events if event["event"] == name), None)


class Ended(NamedTuple):
    """The exit code and the output of a process."""

    code: int
    out: bytes
    err: bytes


def start_python(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    streams: tuple[BinaryIO, BinaryIO, BinaryIO],
    *,
    fresh: bool = False,
) -> Process:
    """Start `python -m MODULE ARGUMENTS` with the given stdin, stdout and stderr.

    A process with a preloaded library is always fresh: a fork has the libraries of its server.
    """
    if MAY_FORK and not fresh and "LD_PRELOAD" not in environment:
        stdin, stdout, stderr = (stream.fileno() for stream in streams)
        return ForkedProcess(module, arguments, folder, environment, (stdin, stdout, stderr))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
    )


def run_python(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    *,
    within_s: float = 120.0,
    fresh: bool = False,
) -> Ended:
    """Run `python -m MODULE ARGUMENTS` to its end. After the time limit, raise TimeoutExpired.

    The streams of a fresh process are pipes, as for a user's program; those of others are files.
    """
    if fresh or not MAY_FORK:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=within_s,
        )
        return Ended(done.returncode, done.stdout, done.stderr)
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = start_python(module, arguments, folder, environment, (given, out, err))
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read(), err.read())


def environment_without_settings() -> dict[str, str]:
    """Return the environment of this process without the settings of Memrelay."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")}


def start_program(
    command: str, log: Path, settings: Mapping[str, str], secrets: Mapping[str, str] | None = None
) -> ChildProcess:
    """Start `memrelay COMMAND` with JSON logs. `settings` come without MEMRELAY_: {"WEB__PORT":
    "0"}; `secrets` are passed as they are.
    """
    named = {
        f"MEMRELAY_{name}": value
        for name, value in ({"LOG__FORMAT": "json"} | dict(settings)).items()
    }
    return ChildProcess("tests.support.run_program", [command], log, named | dict(secrets or {}))
