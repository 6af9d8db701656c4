"""A terminal with the real program: typed input and visible output."""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.support.program import COMMAND, Program
from tests.support.waiting import PATIENCE_S

KEYS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>78]|\x1b\][^\x07]*\x07")


class Terminal:
    """A command in a terminal of 100 columns. Use it as a context: it ends the command."""

    def __init__(self, program: Program, *arguments: str, **environment: str) -> None:
        self._program, self._arguments, self._environment = program, arguments, environment
        self.raw = b""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (30, 100))
        environment = (
            self._program.environment
            | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
            | self._environment
        )
        self._process = subprocess.Popen(
            [*COMMAND, *self._arguments],
            cwd=self._program.folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def seen(self) -> str:
        """The visible text, without colors and cursor movements."""
        return KEYS.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def type(self, text: str | bytes) -> None:
        """Type a text."""
        os.write(self._master, text.encode() if isinstance(text, str) else text)

    def rest(self, for_s: float = 0.5) -> None:
        """Give the program time if it shows nothing to wait for."""
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            self._read(0.1)

    def until(self, text: str, after: int = 0, within_s: float = PATIENCE_S) -> int:
        """Wait until a text is visible after a position, and return the position of its end."""
        deadline = time.monotonic() + within_s
        while (at := self.seen.find(text, after)) < 0:
            assert time.monotonic() < deadline, (
                f"timed out waiting for {text!r}; seen: {self.seen!r}"
            )
            self._read(0.2)
        return at + len(text)

    def end(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the end of the program, and return its exit code."""
        deadline = time.monotonic() + within_s
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end; seen: {self.seen!r}"
            self._read(0.1)
        # A read returns a few kilobytes at most.
        while self._read(0.1):
            pass
        return self._process.returncode

    def _read(self, within_s: float) -> bool:
        """Read what there is. Return whether there was something."""
        readable: Sequence[int]
        readable, _, _ = select.select([self._master], [], [], within_s)
        if not readable:
            return False
        try:
            read = os.read(self._master, 65536)
        except OSError:  # Linux reports a closed terminal as an error.
            time.sleep(0.05)
            return False
        self.raw += read
        return bool(read)


def _take_terminal() -> None:
    """Make it the terminal of the session, so that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
