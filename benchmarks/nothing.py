"""usage: nothing.py. An aiohttp handler that does nothing, the measure of benchmarks/webhooks.py; says its port."""
import asyncio

import uvloop
from aiohttp import web


async def nothing(_: web.Request) -> web.Response:
    """As much as an answer takes."""
    return web.json_response({"message_id": "1780000000000-0"}, status=202)


async def serve() -> None:
    """Until it is killed."""
    app = web.Application()
    app.router.add_post("/webhooks/{uid}/{alias}", nothing)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
