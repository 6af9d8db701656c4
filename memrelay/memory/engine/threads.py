"""Run database work in threads. Each thread owns its stores, so a slow search or a locked file
delays only those.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.search.pool import SemanticResources

if TYPE_CHECKING:
    from memrelay.memory.engine.journal.journal import Journal

Result = TypeVar("Result")
Work = Callable[[OpenStores], Any]


class _Job(NamedTuple):
    work: Work
    # Future of the loop that awaits the result.
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class DatabaseThread:
    """One thread and the stores that only this thread uses.

    Callers pass whole batches, because each call wakes two threads. It does not use a
    standard-library executor: its thread-safe futures double the cost of a call.

    The thread starts with the first call. For the parameters, see OpenStores.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        most_open: int,
        meaning: SemanticResources | None = None,
        journal: "Journal | None" = None,
    ) -> None:
        self._stores = OpenStores(root, most_open, meaning, journal)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        # A daemon, so that a failing program ends without closing it.
        self._thread = Thread(target=self._serve, name=name, daemon=True)

    def set_clock(self, now_ms: Callable[[], int]) -> None:
        """Set the clock of commits, before the thread starts."""
        self._stores.clock = now_ms

    async def run(self, work: Callable[[OpenStores], Result]) -> Result:
        """Run `work` in the thread after earlier work, and return its result or raise its error.

        Work that was cancelled before it began is skipped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._jobs.put(_Job(work, future, loop))
        if self._thread.ident is None:
            self._thread.start()
        try:
            return await future
        finally:
            # The future and its error would keep each other alive, and the batch that the traceback
            # refers to.
            del future

    async def close(self) -> None:
        """Finish pending work, close the stores and end the thread."""
        await self.run(OpenStores.close_all)
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.future.cancelled():
                outcome = _run_job(job.work, self._stores)
                # The loop is closed: nobody awaits the result.
                with suppress(RuntimeError):
                    job.loop.call_soon_threadsafe(_set_outcome, job.future, *outcome)
                del outcome
            # Keep no reference to the job while waiting for the next one, not even by an error's
            # traceback.
            del job


def _run_job(work: Work, stores: OpenStores) -> tuple[Any, BaseException | None]:
    with _Caught() as caught:
        return work(stores), None
    return None, caught.take()


def _set_outcome(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        # The caller no longer awaits the result.
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class _Caught:
    """Catch any exception, including SystemExit, to raise it again in the caller."""

    _error: BaseException | None = None

    def take(self) -> BaseException | None:
        """Return the error and drop the reference, which the error's traceback would otherwise keep
        alive.
        """
        error, self._error = self._error, None
        return error

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = error
        return True
