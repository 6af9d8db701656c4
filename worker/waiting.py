"""Waiting for an event, for some time; and doing something beside something else."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

log = structlog.stdlib.get_logger(__name__)


async def wait(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether the event came within the time; None is however long it takes."""
    if seconds is None:
        return await event.wait()
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """The work runs until the context ends; it must raise nothing. What it raises all the same is
    logged, and it is over."""
    task = asyncio.create_task(work)
    task.add_done_callback(_tell)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(
            "work_beside_failed",
            work=getattr(task.get_coro(), "__qualname__", ""),
            exc_info=error,
        )
