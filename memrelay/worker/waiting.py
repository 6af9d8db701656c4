"""Waits for events with a timeout, and runs background work."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from memrelay.logs import get_logger

log = get_logger(__name__)


def system_time_ms() -> int:
    """Return the time of this host, Unix ms."""
    return time.time_ns() // 1_000_000


async def wait(event: asyncio.Event, seconds: float | None) -> bool:
    """Return whether the event was set within a time; None waits without a limit."""
    if seconds is None:
        return await event.wait()
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work until the context ends. If the work raises, the exception is only logged."""
    task = asyncio.create_task(work)
    task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(
            "background_work_failed",
            work=getattr(task.get_coro(), "__qualname__", ""),
            exc_info=error,
        )
