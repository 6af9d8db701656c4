"""The embedded server's launcher: one server per data folder, launched or attached to, watched and
ended.

Whoever takes the folder's lock launches; everyone else attaches to the socket that it recorded. The
server
holds the lock for as long as it lives, so a free lock means that there is no server, whatever files
remain.
"""

import asyncio
import errno
import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import structlog

from memrelay.bus.client.reconnecting import Backoff
from memrelay.bus.embedded.append_only_file import refuse_left_out
from memrelay.bus.embedded.binary import find_binary
from memrelay.bus.embedded.probe import State, ask, set_option
from memrelay.bus.embedded.process import (
    LOG_NAME,
    NEVER,
    UNCOUNTED,
    end,
    last_words,
    options,
    remedy,
    size_of,
    spawn,
)
from memrelay.bus.embedded.socket_path import settle_socket, socket_of
from memrelay.bus.errors import EmbeddedServerError, ServerDidNotStart, ServerHeldByOther

# The lock that keeps a data folder to one server.
#
# It is a flock, which belongs to the open file and not to a process: the launcher takes it, the
# server inherits
# the descriptor, and the launcher closes its own copy. From then on the lock lives exactly as long as
# the
# server, however either of them ends, and no stale lock can remain.

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


__all__ = ["EmbeddedServer", "socket_of"]

RETRY_S = 0.02  # between two looks while a server comes up
WATCH_S = 0.1  # between two looks at a server that is up

log = structlog.stdlib.get_logger(__name__)

# Something that waits: it yields seconds, which start() sleeps and supervise() awaits.
Steps = Generator[float, None, None]


class EmbeddedServer:
    """A server on a data folder, shared by everyone who starts one there.

    Everything happens in the main thread. `start` it before a loop runs, keep `supervise` running
    as a task,
    and `stop` it at the end. Until `start` has returned, only `launched` may be asked.

    `with_parent`: the server ends with this process, however that ends (Linux).
    `attach_timeout_s`: how long whoever holds the folder may be silent.
    `start_timeout_s`: how long a server of ours may be silent; and how long, in all, another's may
    be loading.
    """

    def __init__(
        self,
        data_folder: Path,
        binary: str | None = None,
        *,
        with_parent: bool = True,
        attach_timeout_s: float = 5.0,
        start_timeout_s: float = 30.0,
        backoff_first_s: float = 0.1,
        backoff_most_s: float = 10.0,
        healthy_after_s: float = 30.0,
    ) -> None:
        self._folder = data_folder.absolute()
        self._configured = binary
        self._with_parent = with_parent
        self._attach_timeout_s = attach_timeout_s
        self._start_timeout_s = start_timeout_s
        self._backoff = Backoff(
            first_s=backoff_first_s, most_s=backoff_most_s, healthy_after_s=healthy_after_s
        )
        self._binary: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None  # only of a server that we launched
        self._socket: Path | None = None
        self._pid: int | None = None
        self._ready_at: float | None = None
        self._log_start = 0  # bytes of the log that are older than our server
        self._stopping = False

    @property
    def launched(self) -> bool:
        """Whether the server is ours to stop; False where we attached to another's."""
        return self._process is not None

    @property
    def socket_path(self) -> Path:
        """The unix socket that clients connect to."""
        if self._socket is None:
            raise RuntimeError("the embedded server has no socket yet: call start() first")
        return self._socket

    @property
    def url(self) -> str:
        """`unix:///path/to/socket`, quoted as urls are."""
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def pid(self) -> int | None:
        """The server's process; None where it is another's and the system does not tell."""
        return self._pid

    def start(self) -> None:
        """Launch a server, or attach to the one that lives; it answers when this returns. Blocks
        meanwhile.

        Raises EmbeddedServerError, and RuntimeError outside of the main thread.
        """
        _refuse_other_threads()
        self._stopping = False
        with closing(self._join()) as steps:
            for pause_s in steps:
                time.sleep(pause_s)

    async def supervise(self) -> None:
        """Run until stopped or cancelled: whenever the server is gone, launch it again or attach to
        who did.

        What fails here is logged and tried again, ever more slowly.
        """
        _refuse_other_threads()
        while not self._stopping:
            if not self._is_gone():
                await asyncio.sleep(WATCH_S)
                continue
            delay_s = self._backoff.delay_s(self._take_life_s())
            exit_code = self._process.returncode if self._process else None
            log.warning(
                "embedded_server_gone",
                launched=self.launched,
                exit_code=exit_code,
                retry_in_s=delay_s,
            )
            await asyncio.sleep(delay_s)
            if not self._stopping:
                await self._join_again()

    def stop(self, grace_s: float = 10.0) -> None:
        """End the server if we launched it, with SIGTERM and after `grace_s` SIGKILL; leave
        another's alone.

        Blocks until it is gone. A running `supervise` returns instead of starting it again.
        """
        self._stopping = True
        process, self._process = self._process, None
        if process is not None:
            end(process, grace_s)
            log.info(
                "embedded_server_stopped",
                pid=process.pid,
                exit_code=process.returncode,
            )

    async def _join_again(self) -> None:
        try:
            with closing(self._join()) as steps:
                await self._walk(steps)
        except EmbeddedServerError as error:
            log.error(
                "embedded_server_not_back",
                error=type(error).__name__,
                reason=str(error),
            )

    async def _walk(self, steps: Steps) -> None:
        for pause_s in steps:
            await asyncio.sleep(pause_s)
            if self._stopping:
                return

    def _join(self) -> Steps:
        """Launch, or attach, or go on waiting for a server of ours which is not ready yet."""
        try:
            if self._process is None or self._process.poll() is not None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder.chmod(0o700)
                self._process = None
                lock = yield from self._lock_unless_answered()
                if lock is not None:
                    self._process = self._launch(lock)
            if self._process is not None:
                yield from self._until_ready(self._process)
        except OSError as error:
            self._process = None
            needs = "a data folder and a program that this user may use"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                needs = f"room in {self._folder}; make some, or name another folder in bus.data"
            raise ServerDidNotStart(f"the embedded server needs {needs}: {error}") from error

    def _lock_unless_answered(self) -> Generator[float, None, FolderLock | None]:
        """The folder's lock as soon as it is free; None once its holder's server has answered."""
        began = silent_since = time.monotonic()
        while (lock := take_lock(self._folder)) is None:
            path = socket_of(self._folder)
            answer = yield from ask(path)
            now = time.monotonic()
            if answer.state is State.READY:
                self._note_ready(path, answer.pid)
                return None
            if answer.state is State.BUSY:
                silent_since = now
            if now - silent_since > self._attach_timeout_s or now - began > self._start_timeout_s:
                raise ServerHeldByOther(self._held(path, answer.state))
            yield RETRY_S
        return lock

    def _launch(self, lock: FolderLock) -> subprocess.Popen[bytes]:
        """Spawn the server, which inherits the lock; our copy is closed whatever happens."""
        with lock:
            refuse_left_out(self._folder)
            self._binary = self._binary or find_binary(self._configured)
            self._socket = settle_socket(self._folder)
            self._log_start = size_of(self._log_path)
            command = [str(self._binary), *options(self._folder, self._socket)]
            process = spawn(
                command, self._log_path, keep=lock.descriptor, with_parent=self._with_parent
            )
        log.info(
            "embedded_server_launched",
            pid=process.pid,
            binary=str(self._binary),
            folder=str(self._folder),
        )
        return process

    def _until_ready(self, process: subprocess.Popen[bytes]) -> Steps:
        """Wait for our server's answer, however long it loads, as long as it says that it does."""
        heard_at = time.monotonic()
        while process.poll() is None:
            answer = yield from ask(self._socket)
            if answer.state is State.READY and self._socket is not None:
                yield from set_option(
                    self._socket, UNCOUNTED, NEVER
                )  # most servers have no such option, and count all
                self._note_ready(self._socket, process.pid)
                return
            if answer.state is State.BUSY:
                heard_at = time.monotonic()
            if time.monotonic() - heard_at > self._start_timeout_s:
                process.kill()
            yield RETRY_S
        self._process = None
        words = last_words(self._log_path, self._log_start)
        raise ServerDidNotStart(
            f"the embedded server must answer within {self._start_timeout_s:g} s, but ended with exit code "
            f"{process.returncode}: correct what its log {self._log_path} says, and start again\n"
            + words
            + (remedy(words, self._binary, self._folder) if self._binary else "")
        )

    def _note_ready(self, path: Path | None, pid: int | None) -> None:
        self._socket, self._pid, self._ready_at = path, pid, time.monotonic()
        log.info(
            "embedded_server_ready",
            launched=self.launched,
            pid=pid,
            socket=str(path),
        )

    def _is_gone(self) -> bool:
        """Whether there is no server that we joined. The lock tells of another's, for it dies with
        it."""
        if self._ready_at is None:
            return True
        if self._process is not None:
            return self._process.poll() is not None
        try:
            lock = take_lock(self._folder)
        except OSError:  # out of descriptors, say: that tells nothing about the server
            return False
        if lock is None:
            return False
        with lock:
            return True

    def _take_life_s(self) -> float:
        """How long the server that is gone had been ready; asked once, then there is none."""
        ready_at, self._ready_at = self._ready_at, None
        return 0.0 if ready_at is None else time.monotonic() - ready_at

    @property
    def _log_path(self) -> Path:
        return self._folder / LOG_NAME

    def _held(self, path: Path | None, state: State) -> str:
        doing = "is still loading its data" if state is State.BUSY else "does not answer"
        return (
            f"{self._folder} belongs to one server at a time, and the process that holds it {doing} "
            f"on {path or 'any socket'}: wait and start again, or end it (fuser {self._folder / LOCK_NAME} names it)"
        )


def _refuse_other_threads() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "the embedded server must be started and supervised in the main thread, "
            "for the kernel ends it together with the thread that started it: call this there"
        )
