"""The launcher of the embedded server: one server per data folder, launched or attached to.

The process that takes the folder's lock launches the server. All others attach to its socket. The
server holds the lock while it lives. So a free lock means that no server runs, even if its files
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

from memrelay.bus.client.reconnecting import Backoff
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.binary import find_binary
from memrelay.bus.embedded.process import (
    LOG_NAME,
    State,
    count_all_replies,
    end,
    last_words,
    measure_log,
    options,
    probe,
    refuse_left_out,
    remedy,
    spawn,
)
from memrelay.bus.embedded.socket_path import choose_socket, find_socket
from memrelay.bus.embedded.users import find_address, read_password, write_users
from memrelay.bus.errors import EmbeddedServerError, ServerDidNotStart, ServerHeldByOther
from memrelay.logs import get_logger

__all__ = ["EmbeddedServer", "find_socket"]

LOCK_NAME = "server.lock"
# Between two probes of a server that is starting.
RETRY_S = 0.02
# Between two checks of a server that is running.
WATCH_S = 0.1

log = get_logger(__name__)

# A procedure that waits: it yields seconds, for which `start` sleeps and `supervise` awaits.
Steps = Generator[float, None, None]


class FolderLock:
    """A lock that was taken on a data folder.

    It is a flock, which belongs to the open file, not to a process. The server inherits
    `descriptor` through `pass_fds`, and the launcher closes its copy. So the lock lives exactly as
    long as the server, and no stale lock can remain.
    """

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
        # LOCK_UN would release the server's copy as well.
        os.close(self.descriptor)


def take_lock(data_folder: Path) -> FolderLock | None:
    """Return the folder's lock, None if it is taken, also within this process. Never waits.

    Raises OSError if the folder is missing or not writable.
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
    """Return a descriptor above 2; the child's standard streams replace lower ones."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


class _KilledWhileStarting(ServerDidNotStart):
    """A signal ended the server before its first answer, as when the system lacks memory."""

    def __init__(self, text: str, signal_number: int) -> None:
        super().__init__(text)
        self.signal_number = signal_number


class EmbeddedServer:
    """A server on a data folder, shared by all processes that start one there.

    Call all methods in the main thread: `start` before an event loop runs, `supervise` as a task,
    `stop` at the end. Before `start` has returned, only `launched` may be read.

    - `with_parent`: the server ends with this process, even if it is killed (Linux)
    - `with_password`: the default user needs the password in the folder. Only measurements and
      tests of other parts do without
    - `attach_timeout_s`: how long the holder of the folder may be silent
    - `start_timeout_s`: how long a launched server may be silent, and how long another one may load
    """

    def __init__(
        self,
        data_folder: Path,
        binary: str | None = None,
        *,
        with_parent: bool = True,
        with_password: bool = True,
        attach_timeout_s: float = 5.0,
        start_timeout_s: float = 30.0,
        backoff_first_s: float = 0.1,
        backoff_most_s: float = 10.0,
        healthy_after_s: float = 30.0,
    ) -> None:
        self._folder = data_folder.absolute()
        self._configured = binary
        self._with_parent, self._with_password = with_parent, with_password
        self._attach_timeout_s = attach_timeout_s
        self._start_timeout_s = start_timeout_s
        self._backoff = Backoff(
            first_s=backoff_first_s, most_s=backoff_most_s, healthy_after_s=healthy_after_s
        )
        self._binary: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None  # of a server launched here
        self._socket: Path | None = None
        self._pid: int | None = None
        self._ready_at: float | None = None
        self._log_start = 0  # bytes of the log before this server's lines
        self._is_stopping = False

    @property
    def launched(self) -> bool:
        """Return whether this process launched the server, so that `stop` ends it."""
        return self._process is not None

    @property
    def socket_path(self) -> Path:
        """Return the Unix socket that clients connect to."""
        if self._socket is None:
            raise RuntimeError("the embedded server has no socket yet: call start() first")
        return self._socket

    @property
    def address(self) -> Address:
        """Return the address with the password."""
        password = read_password(self._folder) if self._with_password else ""
        return Address(path=str(self.socket_path), password=password)

    @property
    def pid(self) -> int | None:
        """Return the ID of the server's process, None if it is unknown."""
        return self._pid

    def start(self) -> None:
        """Launch a server or attach to the running one, and block until it answers.

        A server that is killed before is launched again, as `supervise` does it later. Raises
        EmbeddedServerError, and RuntimeError outside the main thread.
        """
        _refuse_other_threads()
        self._is_stopping = False
        while True:
            try:
                return self._join_now()
            except _KilledWhileStarting as error:
                delay_s = self._backoff.delay_s(0.0)
                log.warning(
                    "embedded_server_killed_while_starting",
                    signal=error.signal_number,
                    remedy="if the system is out of memory, free some: the server loads its data",
                    retry_in_s=delay_s,
                )
                time.sleep(delay_s)

    def _join_now(self) -> None:
        with closing(self._join()) as steps:
            for pause_s in steps:
                time.sleep(pause_s)

    async def supervise(self) -> None:
        """Launch or attach again whenever the server is gone, until stopped or cancelled.

        Errors are logged, and the next attempt comes after a growing delay.
        """
        _refuse_other_threads()
        while not self._is_stopping:
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
            if not self._is_stopping:
                await self._join_again()

    def stop(self, grace_s: float = 10.0) -> None:
        """End the server if it was launched here: SIGTERM, and SIGKILL after `grace_s`.

        Block until it has ended. `supervise` returns instead of restarting it.
        """
        self._is_stopping = True
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
                await self._run_steps(steps)
        except EmbeddedServerError as error:
            log.error(
                "embedded_server_not_back",
                error=type(error).__name__,
                reason=str(error),
            )

    async def _run_steps(self, steps: Steps) -> None:
        for pause_s in steps:
            await asyncio.sleep(pause_s)
            if self._is_stopping:
                return

    def _join(self) -> Steps:
        """Launch, attach, or continue to wait for a launched server that is not ready yet."""
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
                needs = f"disk space in {self._folder}; free some, or change bus.data"
            raise ServerDidNotStart(f"the embedded server needs {needs}: {error}") from error

    def _lock_unless_answered(self) -> Generator[float, None, FolderLock | None]:
        """Return the folder's lock once it is free, None once its holder's server answers."""
        began = silent_since = time.monotonic()
        while (lock := take_lock(self._folder)) is None:
            address = find_address(self._folder)
            answer = probe(address)
            now = time.monotonic()
            if answer.state is State.READY:
                self._set_ready(find_socket(self._folder), answer.pid)
                return None
            if answer.state is State.BUSY:
                silent_since = now
            if now - silent_since > self._attach_timeout_s or now - began > self._start_timeout_s:
                raise ServerHeldByOther(self._explain_held(address, answer.state))
            yield RETRY_S
        return lock

    def _launch(self, lock: FolderLock) -> subprocess.Popen[bytes]:
        """Spawn the server, which inherits the lock. This process closes its copy in any case."""
        with lock:
            refuse_left_out(self._folder)
            self._binary = self._binary or find_binary(self._configured)
            self._socket = choose_socket(self._folder)
            self._log_start = measure_log(self._log_path)
            users = write_users(self._folder) if self._with_password else None
            command = [str(self._binary), *options(self._folder, self._socket, users)]
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
        """Wait until the launched server is ready, as long as it reports that it is loading."""
        answered_at, address = time.monotonic(), self.address
        is_silent = False
        while process.poll() is None:
            answer = probe(address)
            if answer.state is State.READY:
                count_all_replies(address)
                self._set_ready(self._socket, process.pid)
                return
            if answer.state is State.BUSY:
                answered_at = time.monotonic()
            if time.monotonic() - answered_at > self._start_timeout_s:
                is_silent = True
                process.kill()
            yield RETRY_S
        self._process = None
        if process.returncode < 0 and not is_silent:
            raise _KilledWhileStarting(self._explain_end(process.returncode), -process.returncode)
        raise ServerDidNotStart(self._explain_end(process.returncode))

    def _set_ready(self, path: Path | None, pid: int | None) -> None:
        self._socket, self._pid, self._ready_at = path, pid, time.monotonic()
        log.info(
            "embedded_server_ready",
            launched=self.launched,
            pid=pid,
            socket=str(path),
        )

    def _is_gone(self) -> bool:
        """Return whether the joined server has ended; the lock of another's ends with it."""
        if self._ready_at is None:
            return True
        if self._process is not None:
            return self._process.poll() is not None
        try:
            lock = take_lock(self._folder)
        except OSError:  # such as too many open files: unrelated to the server
            return False
        if lock is None:
            return False
        with lock:
            return True

    def _take_life_s(self) -> float:
        """Return how long the ended server was ready, and reset it."""
        ready_at, self._ready_at = self._ready_at, None
        return 0.0 if ready_at is None else time.monotonic() - ready_at

    @property
    def _log_path(self) -> Path:
        return self._folder / LOG_NAME

    def _explain_held(self, address: Address | None, state: State) -> str:
        doing = "is still loading its data" if state is State.BUSY else "does not answer"
        return (
            f"another process holds {self._folder}, which belongs to one server at a time, and "
            f"{doing} on {address.path if address else 'any socket'}: wait and start again, or end "
            f"that process (fuser {self._folder / LOCK_NAME} shows it)"
        )

    def _explain_end(self, exit_code: int) -> str:
        words = last_words(self._log_path, self._log_start)
        repair = remedy(words, self._binary, self._folder) if self._binary else ""
        return (
            f"the embedded server must answer within {self._start_timeout_s:g} s, but ended with "
            f"exit code {exit_code}: fix the error in its log {self._log_path}, and start again\n"
            f"{words}{repair}"
        )


def _refuse_other_threads() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "the embedded server must be started and supervised in the main thread, because the "
            "kernel ends it together with the thread that started it"
        )
