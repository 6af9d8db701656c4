"""usage: python -m tests.support.run_mcp_fixture MEMORY_ROOT KEY. Serve the diagnostic tools of the
suite behind the web application of the product.

It logs the URL of a proxy that adds the key to each request, as the suite sends none.
"""

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
from aiohttp import web
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from memrelay.web.mcp.transports.bridge import AsgiApplication
from memrelay.web.mcp.transports.routes import APPLICATIONS
from memrelay.web.services import SERVICES
from tests.support.mcp_fixture import fixture_server
from tests.support.routes import app_for

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class FixtureApplications:
    """The application of the fixture, for each toolset.

    It keeps sessions: with older revisions the suite's tools send requests to the client.
    """

    def __init__(self) -> None:
        self._manager = StreamableHTTPSessionManager(fixture_server())
        self._started, self._ending = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def get(self, toolset: str) -> AsgiApplication:
        await self._started.wait()
        return self._manager.handle_request  # type: ignore[return-value]

    async def close(self) -> None:
        self._ending.set()
        await self._task

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await self._ending.wait()


def make_proxy(target: str, key: str) -> web.Application:
    """Return an application that forwards to `target` with a key."""

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _HOP_BY_HOP
        } | {"Authorization": f"Bearer {key}"}
        async with session.request(
            request.method, target + request.path_qs, headers=headers, data=await request.read()
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    response.headers[name] = value
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    proxy = web.Application()
    proxy.router.add_route("*", "/{path:.*}", forward)
    session = aiohttp.ClientSession(auto_decompress=False)
    proxy.on_cleanup.append(lambda _: session.close())
    return proxy


async def _listen(app: web.Application) -> str:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def main(root: Path, key: str) -> None:
    """Serve until the process ends."""
    app = app_for(root)
    app[APPLICATIONS] = FixtureApplications()  # type: ignore[misc]
    async with app[SERVICES].catalog:
        url = await _listen(app)
        proxy = await _listen(make_proxy(url, key))
        print(json.dumps({"event": "web_ready", "url": url, "proxy": proxy}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
