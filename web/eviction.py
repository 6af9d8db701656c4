"""Listeners whose key was revoked or has expired: within a second they hear nothing more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import WSCloseCode, web

from memory.errors import StoreBroken, StoreBusy
from web.live import LISTENERS
from web.parts import PARTS

EVERY_S = 0.5


async def evicting(app: web.Application) -> AsyncIterator[None]:
    """Looks at the listeners as long as the application serves."""
    looking = asyncio.create_task(_look_forever(app))
    yield
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking


async def _look_forever(app: web.Application) -> None:
    leaving: set[asyncio.Task[bool]] = set()
    while True:
        await asyncio.sleep(EVERY_S)
        if not app[LISTENERS]:
            continue
        with suppress(
            StoreBusy, StoreBroken
        ):  # while the keys cannot be read nobody comes in, and who was let in stays
            for socket, reason in await _overdue(app):
                task = asyncio.create_task(
                    socket.close(code=WSCloseCode.POLICY_VIOLATION, message=reason, drain=False)
                )
                leaving.add(task)
                task.add_done_callback(leaving.discard)


async def _overdue(app: web.Application) -> list[tuple[web.WebSocketResponse, bytes]]:
    """Who has to leave, and why."""
    authoriser = app[PARTS].authoriser
    ring, now_ms = await authoriser.ring(anew=True), authoriser.now_ms
    found = [
        (socket, ring.fault(caller, now_ms))
        for socket, caller in app[LISTENERS].items()
        if not socket.closed
    ]
    return [(socket, fault.encode()) for socket, fault in found if fault]
