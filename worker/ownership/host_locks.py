"""A worker's place on its host: which others work in the same memory root, and which of them have
ended.

Between hosts the leases alone tell who lives. On one host a lock file does, which ends with its
process, so that nobody
waits for the lease of a worker that was killed.
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

OLD_S = 86_400.0
LEASE = re.compile(
    r".+:[0-9]+:[0-9a-f]{8}/[0-9]+"
)  # its name, also that of a worker that has ended


class NotTheOwner(Exception):
    """Workers of another bus own this memory root."""


class HostLocks:
    """Use it as a context, for as long as the process works. Raises NotTheOwner where another bus's
    workers are there."""

    def __init__(self, memory_root: Path, bus: str) -> None:
        """`bus` is its address. Workers of one root share its pipelines, and have one bus."""
        self.root, self._bus = memory_root, bus
        self._folder = memory_root / "workers"
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._identity = f"{self.name}:{secrets.token_hex(4)}"
        self._leases = 0
        self._owed = False  # a lease that the bus still knows
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Takes the locks."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as undo:
            undo.enter_context(_shared(self.root / "owner.lock", self._bus))
            file = self._file_of(self._identity)
            fcntl.flock(undo.enter_context(_opened(file)), fcntl.LOCK_EX)
            undo.callback(self._tidy, file)
            self._stack = undo.pop_all()
        self._sweep()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves."""
        self._stack.close()

    @property
    def last_lease(self) -> str:
        """The name of its last lease, "" where there was none."""
        return f"{self._identity}/{self._leases}" if self._leases else ""

    def new_lease(self) -> str:
        """The name of this worker's next lease: no other was ever called that."""
        self._leases, self._owed = self._leases + 1, True
        return f"{self._identity}/{self._leases}"

    def signed_off(self) -> None:
        """The bus knows that the last lease has ended."""
        self._owed = False

    def has_ended(self, lease: str) -> bool:
        """Whether a worker is known to work no more; False also where that cannot be told from
        here."""
        identity, _, number = lease.partition("/")
        if identity == self._identity:
            return int(number) < self._leases
        return _is_free(self._file_of(identity))

    def _file_of(self, identity: str) -> Path:
        return self._folder / f"{identity}.lock"

    def _tidy(self, file: Path) -> None:
        """While the bus still believes in the last lease, as where it was away at the end, the file
        stays: nobody holds it."""
        if not self._owed:
            file.unlink()

    def _sweep(self) -> None:
        """What workers left long ago. Younger ones stay, for others to see that their worker has
        ended."""
        for file in self._folder.glob("*.lock"):
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < time.time() - OLD_S and _is_free(file):
                    file.unlink()


@contextmanager
def alone(memory_root: Path) -> Iterator[None]:
    """No worker serves this memory root meanwhile. Raises NotTheOwner where one does; one that is
    started waits."""
    memory_root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _opened(memory_root / "owner.lock") as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotTheOwner(
                f"a worker serves {memory_root}; stop it (Ctrl-C or SIGTERM to `memrelay worker`, or to "
                "`memrelay up`), and start it again afterwards"
            ) from error
        yield


def _is_free(file: Path) -> bool:
    """Whether there is such a lock file, and nobody holds it."""
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
def _shared(file: Path, bus: str) -> Iterator[None]:
    """A lock that all workers of one bus have together; the file says which bus."""
    with _opened(file) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, bus.encode(), 0)
        except BlockingIOError:
            pass
        except OSError as error:  # the system names no file of a descriptor
            raise OSError(error.errno, error.strerror, str(file)) from error
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        theirs = os.pread(descriptor, 4096, 0).decode(errors="replace")
        if theirs != bus:
            raise NotTheOwner(
                f"workers of the bus {theirs} serve {file.parent}; stop them, or set memory.root to another "
                "folder"
            )
        yield


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
