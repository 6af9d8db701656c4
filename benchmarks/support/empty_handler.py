"""usage: nothing.py. An aiohttp handler that does nothing, the measure of benchmarks/webhooks.py;
says its port."""

import sys
from pathlib import Path

import uvloop
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.http_server import listen


async def nothing(_: web.Request) -> web.Response:
    """As much as an answer takes."""
    return web.json_response({"message_id": "1780000000000-0"}, status=202)


async def serve() -> None:
    """Until it is killed."""
    app = web.Application()
    app.router.add_post("/webhooks/{uid}/{alias}", nothing)
    await listen(app)


if __name__ == "__main__":
    uvloop.run(serve())
