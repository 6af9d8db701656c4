"""Lock files that show which workers of this host use a memory root, and which have ended.

Between hosts, only leases show that a worker lives. On one host, a lock file ends with its process,
so no worker waits for the lease of one that was killed.
"""

import fcntl
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from memrelay.memory.engine.lock_holder import find_holder

# Lock files of ended workers are deleted after this time.
MAX_AGE_S = 86_400.0
# The name of a lease: host, process, a random part, and the number of the lease.
LEASE = re.compile(r"[^/\x00]{1,200}/[0-9]{1,9}")


class NotTheOwner(Exception):
    """Workers of another bus, or a worker at all, use this memory root."""


class HostLocks:
    """The locks of one worker, as a context for the life of its process.

    All workers of a memory root share its pipelines, and need the same `bus` address. The names of
    leases have the `cell` of a cluster. Entering the
    context raises NotTheOwner if workers of another bus use the memory root.
    """

    def __init__(self, memory_root: Path, bus: str, cell: str = "") -> None:
        self.root, self._bus = memory_root, bus
        self._folder = memory_root / "workers"
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._identity = f"{self.name}:{secrets.token_hex(4)}{f'@{cell}' if cell else ''}"
        self._leases = 0
        # Whether the bus still knows a lease of this worker.
        self._has_lease = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # `parents` would create the root with the usual mode.
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.mkdir(exist_ok=True, mode=0o700)
        with ExitStack() as undo:
            undo.enter_context(_share_lock(self.root / "owner.lock", self._bus))
            file = self._find_file(self._identity)
            fcntl.flock(undo.enter_context(_open_file(file)), fcntl.LOCK_EX)
            undo.callback(self._delete_file, file)
            self._stack = undo.pop_all()
        self._delete_old_files()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def last_lease(self) -> str:
        """The name of the worker's last lease; "" if it had none."""
        return f"{self._identity}/{self._leases}" if self._leases else ""

    def new_lease(self) -> str:
        """Return the name of the worker's next lease, which no other lease ever had."""
        self._leases, self._has_lease = self._leases + 1, True
        return f"{self._identity}/{self._leases}"

    def mark_signed_off(self) -> None:
        """Note that the bus knows the end of the last lease."""
        self._has_lease = False

    def has_ended(self, lease: str) -> bool:
        """Return whether the worker of a lease has ended; False also if it runs on another host."""
        if not LEASE.fullmatch(lease):
            return False
        identity, _, number = lease.partition("/")
        if identity == self._identity:
            return int(number) < self._leases
        return _is_unlocked(self._find_file(identity))

    def find_identity(self, process: int) -> str:
        """Return the identity of another worker of this memory root; "" for another process."""
        for file in self._folder.glob(f"{socket.gethostname()}:{process}:*.lock"):
            if process != os.getpid() and find_holder(file, "FLOCK") == process:
                return file.name.removesuffix(".lock")
        return ""

    def _find_file(self, identity: str) -> Path:
        return self._folder / f"{identity}.lock"

    def _delete_file(self, file: Path) -> None:
        """Delete the lock file, unless the bus was away and still knows the lease.

        Then the unlocked file shows others that the worker has ended.
        """
        if not self._has_lease:
            file.unlink()

    def _delete_old_files(self) -> None:
        """Delete old files of ended workers. Younger ones show that their worker has ended."""
        for file in self._folder.glob("*.lock"):
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < time.time() - MAX_AGE_S and _is_unlocked(file):
                    file.unlink()


@contextmanager
def alone(memory_root: Path) -> Iterator[None]:
    """Keep workers from serving a memory root. A worker that starts meanwhile waits.

    Raises NotTheOwner if a worker serves it.
    """
    memory_root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _open_file(memory_root / "owner.lock") as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotTheOwner(
                f"a worker serves {memory_root}; stop it (Ctrl-C or SIGTERM to `memrelay worker`, "
                "or to `memrelay up`), and start it again afterwards"
            ) from error
        yield


def _is_unlocked(file: Path) -> bool:
    """Return whether the lock file exists and no process holds it."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _share_lock(file: Path, bus: str) -> Iterator[None]:
    """Hold the lock that all workers of one bus share. The file contains the address of the bus."""
    with _open_file(file) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, bus.encode(), 0)
        except BlockingIOError:
            pass
        except OSError as error:  # it has no file name, because the call used a descriptor
            raise OSError(error.errno, error.strerror, str(file)) from error
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        other = os.pread(descriptor, 4096, 0).decode(errors="replace")
        if other != bus:
            raise NotTheOwner(
                f"workers of the bus {other} serve {file.parent}; stop them, or set memory.root to "
                "another folder"
            )
        yield


@contextmanager
def _open_file(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
