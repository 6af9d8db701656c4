"""Live events of Codebolt's API: published by the web process that served the call.

All web processes send them to the clients of their WebSockets. They are not stored. Requests do
not wait for them: one task publishes the events of a process in order.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import orjson
import structlog
from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.keys import live_channel
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.server.services import SERVICES

log = structlog.stdlib.get_logger(__name__)
PIPELINE_EXECUTED = "persistentMemory:pipeline-executed"
ASSEMBLY_STARTED = "contextAssembly:started"
RULES_EVALUATED = "contextAssembly:rulesEvaluated"
PIPELINE_COMPLETE = "contextAssembly:pipelineComplete"
ASSEMBLY_COMPLETE = "contextAssembly:complete"
ASSEMBLY_ERROR = "contextAssembly:error"


# Events that wait to be published; further ones are lost.
MAX_WAITING = 1000


class _LiveEvent(NamedTuple):
    uid: str
    name: str
    message: bytes


_WAITING = web.AppKey("live_events", asyncio.Queue[_LiveEvent])


def publish_live(
    request: web.Request, uid: str, event: str, data: Mapping[str, Any] | list[Any]
) -> None:
    """Send an event to all clients that follow the events of a pipeline now.

    Without a server nothing is sent, since the call that it reports has succeeded.
    """
    now = format_time(time.time_ns() // 1_000_000)
    message = orjson.dumps({"event": event, "data": data, "timestamp": now})
    try:
        request.config_dict[_WAITING].put_nowait(_LiveEvent(uid, event, message))
    except asyncio.QueueFull:
        _log_loss(uid, event, f"{MAX_WAITING} events wait already")


async def publish_forever(app: web.Application) -> AsyncIterator[None]:
    """Publish the live events while the application runs."""
    app[_WAITING] = asyncio.Queue(MAX_WAITING)
    publishing = asyncio.create_task(_publish(app))
    yield
    publishing.cancel()


async def _publish(app: web.Application) -> None:
    waiting, line = app[_WAITING], app[SERVICES].line
    while True:
        event = await waiting.get()
        try:
            await line.call("PUBLISH", live_channel(event.uid), event.message)
        except BusError as error:
            _log_loss(event.uid, event.name, str(error))


def _log_loss(uid: str, name: str, reason: str) -> None:
    log.warning("live_event_lost", pipeline=uid, event_name=name, reason=reason)
