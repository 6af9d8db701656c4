"""Ask a server whether it is ready, without ever blocking.

What waits is a generator that yields seconds: its runner sleeps before a loop runs and awaits
inside of one,
so that the waiting is written once.
"""

import os
import socket
import struct
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

PATIENCE_S = 1.0  # for one answer; a busy server may be within an fsync
POLL_S = 0.01


class State(Enum):
    """What a server said to PING."""

    READY = "ready"
    BUSY = "busy"  # alive, and says LOADING, BUSY or another error
    SILENT = "silent"  # nobody there, or no answer


@dataclass(frozen=True, slots=True)
class Answer:
    """`pid` is the server's process, where the system tells it (Linux)."""

    state: State
    pid: int | None = None


SILENCE = Answer(State.SILENT)


def ask(socket_path: Path | None) -> Generator[float, None, Answer]:
    """PING the server on a unix socket; yields the seconds to wait between looks, returns its
    answer."""
    if socket_path is None:
        return SILENCE
    heard, pid = yield from _say(socket_path, b"PING\r\n")
    if not heard:
        return SILENCE
    return Answer(State.READY if heard.startswith(b"+PONG") else State.BUSY, pid)


def set_option(socket_path: Path, name: str, value: int) -> Generator[float, None, bool]:
    """Sets an option of a server that is up, and returns whether it has such a one: at its start an
    unknown one ends it."""
    heard, _ = yield from _say(socket_path, f"CONFIG SET {name} {value}\r\n".encode())
    return heard.startswith(b"+OK")


def _say(socket_path: Path, command: bytes) -> Generator[float, None, tuple[bytes, int | None]]:
    """(the beginning of the answer, the server's process); b"" where none came."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.setblocking(False)
        try:
            line.connect(os.fspath(socket_path))
            line.send(command)
        except OSError:  # also EAGAIN: a full backlog
            return b"", None
        heard = yield from _hear(line)
        return heard, _peer_pid(line) if heard else None


def _hear(line: socket.socket) -> Generator[float, None, bytes]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield POLL_S
        try:
            return line.recv(512)
        except BlockingIOError:
            continue
        except OSError:
            break
    return b""


def _peer_pid(line: socket.socket) -> int | None:
    """The kernel's word on who listens; 0 means a process that this one cannot see (another pid
    namespace)."""
    if sys.platform != "linux":
        return None
    told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", told)[0]
    return pid or None
