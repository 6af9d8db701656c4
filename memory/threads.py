"""Database threads: each owns its stores, so that a slow search or a locked file delays only its
own."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from memrelay.memory.search.pool import Meaning
from memrelay.memory.stores import OpenStores

Result = TypeVar("Result")
Work = Callable[[OpenStores], Any]


class _Asked(NamedTuple):
    work: Work
    future: asyncio.Future[Any]  # of the loop that waits for it
    loop: asyncio.AbstractEventLoop


class DatabaseThread:
    """One thread and the stores that only it touches. Whole batches are handed over, since each
    hand-over wakes two threads.

    It is no executor of the standard library, whose futures are made to be waited for in any
    thread: that costs as much as
    the hand-over itself.
    """

    def __init__(
        self, name: str, root: Path, most_open: int, meaning: Meaning | None = None
    ) -> None:
        """The thread starts with the first work; the rest as OpenStores has it."""
        self._stores = OpenStores(root, most_open, meaning)
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._thread = Thread(
            target=self._serve, name=name, daemon=True
        )  # a program that fails need not close it to end

    async def run(self, work: Callable[[OpenStores], Result]) -> Result:
        """Runs `work` in the thread, after what was asked before, and returns or raises what it
        does.

        What nobody awaits any more is left out, unless it has begun.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._asked.put(_Asked(work, future, loop))
        if self._thread.ident is None:
            self._thread.start()
        try:
            return await future
        finally:
            # else it and its error would keep each other, and the batch that is known to the
            # traceback
            del future

    async def close(self) -> None:
        """Finishes what was asked, closes the stores and ends the thread."""
        await self.run(OpenStores.close_all)
        self._asked.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            if not asked.future.cancelled():
                outcome = _outcome(asked.work, self._stores)
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    asked.loop.call_soon_threadsafe(_tell, asked.future, *outcome)
                del outcome
            # nothing of it is kept while the next one is waited for, nor by the traceback of an
            # error
            del asked


def _outcome(work: Work, stores: OpenStores) -> tuple[Any, BaseException | None]:
    with _Caught() as caught:
        return work(stores), None
    return None, caught.take()


def _tell(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # who asked has given up
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class _Caught:
    """Whatever is raised, SystemExit too: it is raised again where the work was asked for."""

    _error: BaseException | None = None

    def take(self) -> BaseException | None:
        """It, which is not kept here: its traceback knows who caught it."""
        error, self._error = self._error, None
        return error

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = error
        return True
