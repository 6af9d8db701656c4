"""Reads the deliveries of the records of a message to endpoints, with their tries."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from memrelay.bus.keys import stores_key
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.timestamps import parse_ms
from memrelay.web.api.operations import call_operation
from memrelay.web.services import get_services

# The built-in store of endpoints.
ENDPOINTS_STORE = "endpoints"
# Records whose deliveries are looked for, and deliveries that are shown.
MAX_RECORDS, MAX_DELIVERIES = 5, 10


async def has_endpoints(request: web.Request, uid: str) -> bool:
    """Return whether a pipeline has ever had an endpoint: their store then has a commit.

    Raises BusError.
    """
    words = await get_services(request).line.call("HGETALL", stores_key(uid))
    return built_in_store(uid, ENDPOINTS_STORE).encode() in words[::2]


async def find_deliveries(
    request: web.Request, uid: str, guids: Sequence[str], timeout_s: float
) -> list[dict[str, Any]]:
    """Return the first deliveries about these records as `deliveries.get` does.

    Each try has `at_ms`, Unix ms. Raises Problem.
    """

    async def call(name: str, **given: Any) -> Any:
        return await call_operation(request, name, uid, given, timeout_s=timeout_s)

    pages = await asyncio.gather(
        *(
            call("deliveries.list", subject=guid, limit=MAX_DELIVERIES)
            for guid in dict.fromkeys(guids[:MAX_RECORDS])
        )
    )
    listed = [one for page in pages for one in reversed(page["items"])]
    found = await asyncio.gather(
        *(call("deliveries.get", id=one["id"]) for one in listed[:MAX_DELIVERIES])
    )
    return [
        one | {"tries": [tried | {"at_ms": parse_ms(tried["at"]) or 0} for tried in one["tries"]]}
        for one in found
    ]
