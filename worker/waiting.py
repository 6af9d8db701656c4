"""Waiting for an event, for some time."""
import asyncio


async def wait(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether the event came within the time; None is however long it takes."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
