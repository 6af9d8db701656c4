"""Processes that a fork server starts, with the interface of `subprocess.Popen`."""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from tests.support.fork_server import NUMBER, Order, receive

# The environment variable with the name of a shared server's socket.
SHARED = "FORK_SERVER_OF_TESTS"
CHECKOUT = Path(__file__).resolve().parents[2]
# Forking is safe on Linux only: the frameworks of macOS start threads.
MAY_FORK = sys.platform == "linux"


class ForkedProcess:
    """`python -m MODULE ARGUMENTS` in a process with loaded modules.

    It is killed when the last reference to this object is gone.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
    ) -> None:
        """Start the process. `streams` are the descriptors of stdin, stdout and stderr."""
        self.returncode: int | None = None
        self._lock = Lock()
        self._channel, other_end = socket.socketpair()
        with other_end:
            socket.send_fds(_control(), [b"x"], [*streams, other_end.fileno()])
        Order(module, list(arguments), str(folder), dict(environment)).send(self._channel)
        self.pid = self._read_number()

    def poll(self) -> int | None:
        """Return the return code, None if the process is alive."""
        return self._await_end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the return code. Raises TimeoutExpired."""
        ended = time.monotonic() + timeout if timeout is not None else None
        while (code := self._await_end(0.05)) is None:
            if ended is not None and time.monotonic() > ended:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless the process is known to have ended."""
        self.send_signal(signal.SIGKILL)

    def _await_end(self, within_s: float) -> int | None:
        with self._lock:
            if self.returncode is None and _is_readable(self._channel, within_s):
                self.returncode = self._read_number()
                self._channel.close()  # the server removes the dead process
            return self.returncode

    def _read_number(self) -> int:
        try:
            number: int = NUMBER.unpack(receive(self._channel, NUMBER.size))[0]
        except (EOFError, ConnectionError) as error:
            raise RuntimeError("the fork server has ended") from error
        return number

    def __del__(self) -> None:
        self._channel.close()


def _is_readable(channel: socket.socket, within_s: float) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def share_fork_server() -> None:
    """Start the server whose forks serve this process and those that it will start."""
    if MAY_FORK:
        name = f"memrelay-tests-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{name}")
            listener.listen()
            server = _start_server(listener)
        os.environ[SHARED] = name
        atexit.register(server.wait)
        atexit.register(server.kill)


@cache
def _control() -> socket.socket:
    """Return the socket for orders to the fork server of this process."""
    if name := os.environ.get(SHARED):
        control = socket.socket(socket.AF_UNIX)
        control.connect(f"\0{name}")
        atexit.register(control.close)
        return control
    control, other_end = socket.socketpair()
    with other_end:
        server = _start_server(other_end)
    atexit.register(server.wait)
    atexit.register(control.close)  # ends the server
    return control


def _start_server(end: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.fork_server", str(end.fileno())],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[end.fileno()],
    )
