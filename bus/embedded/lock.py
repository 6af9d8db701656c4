"""The lock that keeps a data folder to one server.

It is a flock, which belongs to the open file and not to a process: the launcher takes it, the
server inherits
the descriptor, and the launcher closes its own copy. From then on the lock lives exactly as long as
the
server, however either of them ends, and no stale lock can remain.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

LOCK_NAME = "server.lock"


class FolderLock:
    """A taken lock, to be closed by who took it; a child given `descriptor` through `pass_fds`
    keeps it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        # Close, never LOCK_UN: unlocking would release the server's copy as well.
        os.close(self.descriptor)


def take_lock(data_folder: Path) -> FolderLock | None:
    """The folder's lock, or None where another process, or another caller here, has it. Never
    waits.

    Raises OSError where the folder is missing or not writable.
    """
    descriptor = _open_above_standard(data_folder / LOCK_NAME)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return FolderLock(descriptor)


def _open_above_standard(path: Path) -> int:
    """A descriptor of 3 or more: a lower one, free in a detached program, would be lost to the
    child's DEVNULL."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)
