"""A read whose result all callers share for one second."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
FRESH_S = 1.0


class CachedRead(Generic[Result]):
    """Caches the result of `read`. Concurrent callers share one read. `clock` returns seconds."""

    def __init__(
        self,
        read: Callable[[], Coroutine[Any, Any, Result]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self._task: asyncio.Task[Result] | None = None
        self._started_at = 0.0

    async def get(self, *, refresh: bool = False) -> Result:
        """Return a result at most one second old, or a new one if `refresh`.

        Raises every exception of `read`.
        """
        task = self._task
        if task is None or refresh or (task.done() and self._is_stale()):
            self._started_at = self._clock()
            task = self._task = asyncio.create_task(self._read())
        return task.result() if task.done() else await asyncio.shield(task)

    def _is_stale(self) -> bool:
        return self._clock() - self._started_at >= FRESH_S
