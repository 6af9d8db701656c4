"""Live events of Codebolt's API: published by the web process that served the call.

All web processes send them to the clients of their WebSockets. They are not stored.
"""

import time
from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.keys import live_channel
from memrelay.memory.timestamps import format_time
from memrelay.web.server.services import get_services

log = structlog.stdlib.get_logger(__name__)
PIPELINE_EXECUTED = "persistentMemory:pipeline-executed"
ASSEMBLY_STARTED = "contextAssembly:started"
RULES_EVALUATED = "contextAssembly:rulesEvaluated"
PIPELINE_COMPLETE = "contextAssembly:pipelineComplete"
ASSEMBLY_COMPLETE = "contextAssembly:complete"
ASSEMBLY_ERROR = "contextAssembly:error"


async def publish_live(
    request: web.Request, uid: str, event: str, data: Mapping[str, Any] | list[Any]
) -> None:
    """Send an event to all clients that follow the events of a pipeline now.

    Without a server nothing is sent, since the call that it reports has succeeded.
    """
    now = format_time(time.time_ns() // 1_000_000)
    message = orjson.dumps({"event": event, "data": data, "timestamp": now})
    try:
        await get_services(request).line.call("PUBLISH", live_channel(uid), message)
    except BusError as error:
        log.warning("live_event_lost", pipeline=uid, event_name=event, reason=str(error))
