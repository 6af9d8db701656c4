"""Starts the program that tries a message (memrelay/dry_run), and waits for its report.

Its start takes a second, so it serves several tries, each in a fork, and ends when it is idle.
"""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import orjson
from aiohttp import web

from memrelay.installation import PACKAGE
from memrelay.web.server.errors import TooManyRequests

PROGRAM = "memrelay.dry_run.child"
# The whole environment of the process: it has no secrets.
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
# Seconds for the start, for copies of stores, and for a run that ends itself after 2 s.
MAX_ALL_S = 15.0
# Seconds after which a process without a try ends.
IDLE_S = 300.0
# Tries that run or wait.
MAX_TRIES = 4
# Bytes of the length before a request or report.
SIZE_BYTES = 4
KILLED = (
    "it was ended at a limit of time or memory: look for a loop, or for a text that is too long"
)


@dataclass(slots=True, eq=False)
class _Started:
    """A process with its folder."""

    process: Process
    folder: Path

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return the report; b"" if its fork was killed.

        Raises OSError and IncompleteReadError if the process has ended.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(len(request).to_bytes(SIZE_BYTES) + request)
        await stdin.drain()
        size = int.from_bytes(await stdout.readexactly(SIZE_BYTES))
        return await stdout.readexactly(size)

    async def end(self) -> None:
        """End the process with its fork, and delete its folder."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


class Tries:
    """The tries of a web server. `close` ends their process."""

    def __init__(self) -> None:
        self._callers: set[str] = set()
        self._turn = asyncio.Lock()
        self._started: asyncio.Task[_Started] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Run the block if the caller has no other try. Raises TooManyRequests."""
        if caller in self._callers or len(self._callers) >= MAX_TRIES:
            raise TooManyRequests("another try runs; one runs at a time: retry in a second", 1)
        self._callers.add(caller)
        try:
            async with self._turn:
                yield
        finally:
            self._callers.discard(caller)

    def warm(self) -> "asyncio.Task[_Started]":
        """Start the process, if it does not run. It ends after IDLE_S without a try."""
        if self._started is None:
            self._started = asyncio.create_task(_start())
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_later(IDLE_S, self._drop)
        return self._started

    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a try in its turn and return the report. `request` has the fields of TryRequest in
        memrelay/dry_run.
        """
        report, reason = b"", KILLED
        is_whole = False
        try:
            async with asyncio.timeout(MAX_ALL_S):
                report = await (await asyncio.shield(self.warm())).ask(orjson.dumps(request))
                is_whole = True
        except TimeoutError:
            reason = f"it took longer than {MAX_ALL_S:g} s"
        except (OSError, asyncio.IncompleteReadError):
            reason = "its process ended: try again"
        finally:
            if not is_whole:
                self._drop()
        if report:
            found: dict[str, Any] = orjson.loads(report)
            return found
        empty: dict[str, Any] = {"steps": [], "published": [], "dead_letters": [], "notes": []}
        return {"status": "stopped", "reason": reason, "took_ms": 0.0, **empty}

    async def close(self) -> None:
        """End the process."""
        self._drop()
        await asyncio.gather(*self._ending)

    def _drop(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        started, self._started, self._expiry = self._started, None, None
        if started is not None:
            task = asyncio.create_task(_end(started))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


TRIES = web.AppKey("tries", Tries)


async def close_tries(app: web.Application) -> None:
    """End the processes of an application."""
    await app[TRIES].close()


async def _start() -> _Started:
    folder = Path(mkdtemp(prefix="memrelay-try-"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", PROGRAM),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": str(PACKAGE.parent)},
        start_new_session=True,
    )
    return _Started(process, folder)


async def _end(started: "asyncio.Task[_Started]") -> None:
    await (await started).end()
