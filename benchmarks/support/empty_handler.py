"""usage: empty_handler.py. An aiohttp handler that does nothing: the reference of
benchmarks/webhooks.py."""

import sys
from pathlib import Path

import uvloop
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.support.http_server import listen


async def answer(_: web.Request) -> web.Response:
    """Return a fixed answer."""
    return web.json_response({"message_id": "1780000000000-0"}, status=202)


async def serve() -> None:
    """Serve until the process is killed."""
    app = web.Application()
    app.router.add_post("/webhooks/{uid}/{alias}", answer)
    await listen(app)


if __name__ == "__main__":
    uvloop.run(serve())
