"""Waiting for an event, but not for ever."""
import asyncio


async def wait(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came within the time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
