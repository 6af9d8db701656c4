"""The parts of one test: an embedded server, a memory root, and a worker that can be killed and
restarted.
"""

import asyncio
import os
import signal
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.keys import CHANGES
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.memory.engine.memory_id import store_path
from tests.support.child import ChildProcess
from tests.support.client import Client
from tests.support.run_worker import deploy
from tests.support.waiting import PATIENCE_S
from tests.support.worker import start_worker_process

Row = tuple[Any, ...]


class TestSystem:
    """Use it as a context: at its end it ends the processes by ID and removes the folder."""

    __test__ = False  # pytest collects classes that begin with Test

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.workers: list[ChildProcess] = []
        self.deployed = 0  # pipelines

    def __enter__(self) -> Self:
        """Start the server, without a password. The test starts the worker."""
        self.folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="memrelay-test-"))
        )
        self.root, self._steps = self.folder / "memory", self.folder / "steps"
        self.server = EmbeddedServer(self.folder / "bus", with_password=False)
        self._stack.callback(self.server.stop, grace_s=5)
        self.server.start()
        self.client = self._stack.enter_context(Client(self.server.socket_path))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            if worker.lives:
                worker.kill()
        self._stack.close()

    @property
    def steps(self) -> list[str]:
        """Return the steps that the workers have passed."""
        return self._steps.read_text().split("\n")[:-1] if self._steps.exists() else []

    def start_worker(
        self, *, ready: bool = True, bus: Path | None = None, **config: Any
    ) -> ChildProcess:
        """Start a worker on the memory root and the server, or on another socket `bus`.

        `config` has the keys of start_worker_process and run_worker.
        """
        worker = start_worker_process(bus or self.server.socket_path, self.root, **config)
        self.workers.append(worker)
        if ready:
            worker.await_ready()
        return worker

    def start_stepping_worker(self, **config: Any) -> ChildProcess:
        """Start a worker that records its steps and kills itself at step number `die_at` or at
        step `die_on`.
        """
        return self.start_worker(steps=str(self._steps), **config)

    def kill_server(self) -> None:
        """Send SIGKILL to the server and return when it is dead; the launcher has to notice it."""
        assert self.server.pid is not None
        os.kill(self.server.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.server.pid, os.WEXITED | os.WNOWAIT)

    def deploy(self, *bundles: dict[str, Any], announced: bool = True) -> None:
        """Deploy bundles, notify the worker, and wait until it serves them."""
        asyncio.run(deploy(self.root, *bundles))
        self.deployed += len(bundles)
        if announced:
            self.announce()
        for bundle in bundles:
            self.client.await_served(bundle["pipeline_uid"])

    def announce(self) -> None:
        """Notify the worker of a change in the catalog."""
        self.client.redis.publish(CHANGES, "deployed")

    def remove(self, uid: str) -> None:
        """Remove a pipeline and notify the worker."""
        asyncio.run(_remove(self.root, uid))
        self.announce()

    def dead_letters(self, uid: str) -> list[DeadLetter]:
        """Return a pipeline's dead letters in the order of their arrival."""
        return asyncio.run(_dead_letters(self.root, uid))

    def await_dead_letter(self, uid: str, ident: str, within_s: float = PATIENCE_S) -> DeadLetter:
        """Wait until an entry has become a dead letter and is acknowledged."""
        self.client.await_done(uid, ident, within_s)
        letters = {letter.id: letter for letter in self.dead_letters(uid)}
        assert ident in letters, f"{ident} is done, and no dead letter"
        return letters[ident]

    def store_file(self, uid: str, alias: str = "memories") -> Path:
        """Return the file of a pipeline's store."""
        return store_path(self.root, f"instances/{uid}/{alias}")

    def rows(self, uid: str, sql: str, alias: str = "memories") -> list[Row]:
        """Return the rows of a query on a store, over a separate connection."""
        with closing(sqlite3.connect(self.store_file(uid, alias), timeout=5)) as connection:
            return connection.execute(sql).fetchall()

    def contents(self, uid: str, alias: str = "memories") -> list[str]:
        """Return the contents of a store's records, oldest first; empty if there is no store."""
        if not self.store_file(uid, alias).exists():
            return []
        return [
            content
            for (content,) in self.rows(uid, "SELECT content FROM records ORDER BY row", alias)
        ]


async def _remove(root: Path, uid: str) -> None:
    async with Catalog(root) as catalog:
        await catalog.remove(uid)


async def _dead_letters(root: Path, uid: str) -> list[DeadLetter]:
    async with Catalog(root) as catalog:
        found = [
            await catalog.dead_letters.find(uid, one.id)
            for one in await catalog.dead_letters.page([uid], limit=10_000)
        ]
    return [letter for letter in found if letter is not None]
