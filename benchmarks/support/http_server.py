"""Serves an aiohttp application on a free port, and says it: what the peers of our faces are made
of."""

import asyncio

from aiohttp import web


async def listen(app: web.Application) -> None:
    """Until it is killed."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
