"""usage: model_stub.py SECONDS. A service with the API of `/chat/completions`, which answers after
this time. `GET /answered` returns how many requests it has answered."""

import asyncio
import sys
from pathlib import Path

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.support.http_server import listen


class Stub:
    """Answers each request with 25 words, which differ with the length of the conversation."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s, self._answered = wait_s, 0

    async def complete(self, request: web.Request) -> web.Response:
        """Return a message of the model."""
        count = len(orjson.loads(await request.read())["messages"])
        if self._wait_s:
            await asyncio.sleep(self._wait_s)
        self._answered += 1
        text = " ".join(f"word{(count + n) % 14}_{count * n % 97}" for n in range(25))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        return web.Response(
            body=orjson.dumps({"object": "chat.completion", "choices": [choice]}),
            content_type="application/json",
        )

    async def count(self, _: web.Request) -> web.Response:
        """Return the number of answers."""
        return web.json_response(self._answered)


async def serve(wait_s: float) -> None:
    """Serve until the process is killed."""
    stub = Stub(wait_s)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", stub.complete)
    app.router.add_get("/answered", stub.count)
    await listen(app)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
