"""A terminal with the real program in it: what a person types, and what they see."""

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

KEYS = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>78]|\x1b\][^\x07]*\x07"
)  # what moves the cursor and colours


class Terminal:
    """Use it as a context: at its end the program is gone."""

    def __init__(self, program: Program, *arguments: str, **environment: str) -> None:
        """Runs the command in a terminal of 100 columns."""
        self._program, self._arguments, self._environment = program, arguments, environment
        self.raw = b""

    def __enter__(self) -> Self:
        """Starts it."""
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
        """Ends what runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def seen(self) -> str:
        """What was shown, without colours and movements of the cursor."""
        return KEYS.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def type(self, text: str | bytes) -> None:
        """Types it."""
        os.write(self._master, text.encode() if isinstance(text, str) else text)

    def rest(self, for_s: float = 0.5) -> None:
        """Lets the program come to rest where nothing is shown that could be waited for."""
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            self._read(0.1)

    def until(self, text: str, after: int = 0, within_s: float = PATIENCE_S) -> int:
        """Waits until a text is shown `after` what was shown before; where it ends."""
        deadline = time.monotonic() + within_s
        while (at := self.seen.find(text, after)) < 0:
            assert time.monotonic() < deadline, f"waited in vain for {text!r}; seen: {self.seen!r}"
            self._read(0.2)
        return at + len(text)

    def end(self, within_s: float = PATIENCE_S) -> int:
        """Waits for the end of the program; its exit code."""
        deadline = time.monotonic() + within_s
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end; seen: {self.seen!r}"
            self._read(0.1)
        self._read(0.1)
        return self._process.returncode

    def _read(self, within_s: float) -> None:
        readable: Sequence[int]
        readable, _, _ = select.select([self._master], [], [], within_s)
        if not readable:
            return
        try:
            self.raw += os.read(self._master, 65536)
        except OSError:  # what Linux says when the other end is closed
            time.sleep(0.05)


def _take_terminal() -> None:
    """Makes it the terminal of the program's session, so that Ctrl-C reaches it as a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
