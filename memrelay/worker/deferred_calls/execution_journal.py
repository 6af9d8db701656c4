"""Names the deferred call whose code runs right now, in a file that outlives the process.

A worker that is killed from outside nearly always dies while its deferred calls await something. So
the next worker of the host can tell a call that ends the process from one that was only open.
"""

import asyncio
import fcntl
import os
import secrets
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

# Bytes of a file: the id of the call, and zeros.
SIZE = 512
SUFFIX = ".executing"
_running: ContextVar[str] = ContextVar("deferred_call", default="")


class ExecutionJournal:
    """The file of one worker in `folder`. Its lock ends with the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._descriptor = -1
        # Calls in which other workers have died.
        self._deaths: set[str] = set()

    def open(self) -> None:
        """Create and lock the file."""
        new = self._file.with_suffix(".new")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.pwrite(descriptor, bytes(SIZE), 0)
        # It stays open, because it holds the lock.
        self._descriptor = descriptor
        new.rename(self._file)

    def close(self) -> None:
        """Delete the file: this worker has ended in order."""
        self._file.unlink(missing_ok=True)

    def enter(self, key: str) -> None:
        """Note that the code of a call runs now."""
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, key.encode()[: SIZE - 1] + b"\0", 0)

    def leave(self) -> None:
        """Note that no code of a call runs now."""
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, b"\0", 0)

    def wrap(self, key: str, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that notes when code of a deferred call runs."""
        return _Noted(work, self, key)

    def make_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any
    ) -> "asyncio.Future[Any]":
        """Return a task, as the task factory of the loop. Tasks that a call starts belong to it."""
        key = _running.get()
        if key and not isinstance(work, _Noted) and asyncio.iscoroutine(work):
            work = self.wrap(key, work)
        return asyncio.Task(work, loop=loop, **options)

    def take_deaths(self, keys: set[str]) -> set[str]:
        """Return those calls in which another worker has died. Each death is returned once."""
        for file in self._folder.glob(f"*{SUFFIX}"):
            if file != self._file:
                with suppress(OSError):
                    self._read_dead(file)
        found = keys & self._deaths
        self._deaths -= found
        return found

    def _read_dead(self, file: Path) -> None:
        """Read and delete the file of a worker that has died. Raises OSError if it lives."""
        descriptor = os.open(file, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name = os.pread(descriptor, SIZE, 0).partition(b"\0")[0].decode(errors="replace")
            file.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
        if name:
            self._deaths.add(name)


class _Noted(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are noted."""

    __slots__ = ("_journal", "_key", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], journal: ExecutionJournal, key: str) -> None:
        self._work, self._journal, self._key = work, journal, key

    def send(self, value: Any) -> Any:
        _running.set(self._key)
        self._journal.enter(self._key)
        try:
            return self._work.send(value)
        finally:
            self._journal.leave()

    def throw(self, *fault: Any) -> Any:
        self._journal.enter(self._key)
        try:
            return self._work.throw(*fault)
        finally:
            self._journal.leave()

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return (yield from self._work.__await__())
