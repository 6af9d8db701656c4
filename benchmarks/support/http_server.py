"""Serve an aiohttp application on a free port, for the reference programs."""

import asyncio

from aiohttp import web


async def listen(app: web.Application) -> None:
    """Serve until the process is killed. Print the port first."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
