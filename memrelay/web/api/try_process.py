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
from dataclasses import dataclass, field
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
# Seconds for the start of the process, and for a try, which ends itself earlier: it copies stores
# for at most 10 s, and runs for at most 8 s.
MAX_START_S, MAX_TRY_S = 60.0, 25.0
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
    """A process with its folder. `ready` ends when the process has imported everything."""

    process: Process
    folder: Path
    ready: "asyncio.Task[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.ready = asyncio.create_task(self.read())

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return the report; b"" if its fork was killed.

        Raises OSError and IncompleteReadError if the process has ended.
        """
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(len(request).to_bytes(SIZE_BYTES) + request)
        await stdin.drain()
        return await self.read()

    async def read(self) -> bytes:
        """Return the next report. Raises IncompleteReadError if the process has ended."""
        stdout = self.process.stdout
        assert stdout is not None
        size = int.from_bytes(await stdout.readexactly(SIZE_BYTES))
        return await stdout.readexactly(size)

    async def end(self) -> None:
        """End the process with its fork, and delete its folder."""
        self.ready.cancel()
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
            started = await asyncio.shield(self.warm())
            async with asyncio.timeout(MAX_START_S):
                await asyncio.shield(started.ready)
            async with asyncio.timeout(MAX_TRY_S):
                report = await started.ask(orjson.dumps(request))
            is_whole = True
        except TimeoutError:
            reason = "it took too long: the machine is busy, or a block waits"
        except asyncio.IncompleteReadError:
            reason = "its process ended: try again"
        except OSError as error:
            reason = f"its process could not be started or has ended: {error}"
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
    with suppress(OSError):  # it could not be started
        await (await started).end()
