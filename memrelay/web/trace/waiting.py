"""Finds the messages that follow from a message and wait because of their agent's `wf_flow`."""

import asyncio
from typing import Any

from aiohttp import web

from memrelay.pipelines.checked import CheckedBundle
from memrelay.pipelines.plan import find_first_store
from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation

# Waiting messages of a store that are marked in a search.
MAX_WAITING = 1000


async def find_waiting(
    request: web.Request, served: Served, entry: str, timeout_s: float | None = None
) -> list[dict[str, Any]]:
    """Return the messages that wait, with `id`, `agent` and `wakes_at`.

    `timeout_s` is the time for each call, by default that of the API. Raises Problem if the
    pipeline's owner does not answer.
    """
    found = await _list_waiting(request, served, {"entry": entry}, timeout_s)
    return [{"id": one["id"], "agent": one["agent"], "wakes_at": one["wakes_at"]} for one in found]


async def find_parked(
    request: web.Request, served: Served, timeout_s: float | None = None
) -> frozenset[str]:
    """Return the entries that led to a message that waits, the first 1,000 of each store.

    Raises Problem if the pipeline's owner does not answer.
    """
    found = await _list_waiting(request, served, {"limit": MAX_WAITING}, timeout_s)
    return frozenset(one["entry"] for one in found)


async def _list_waiting(
    request: web.Request, served: Served, given: dict[str, Any], timeout_s: float | None
) -> list[dict[str, Any]]:
    uid = served.deployed.uid
    pages = await asyncio.gather(
        *[
            call_operation(request, "waiting_messages.list", uid, given, store, timeout_s=timeout_s)
            for store in _list_stores(served.bundle)
        ]
    )
    return [one for page in pages for one in page["items"] if one["pipeline"] == uid]


def _list_stores(bundle: CheckedBundle) -> list[str]:
    """Return the stores with waiting messages, of a bundle with `wf_flow`."""
    agents = [agent for agent in bundle.agents if agent.calls]
    first = find_first_store(bundle.uid, [agent.args.store for agent in agents])
    stores = [agent.args.store or first for agent in agents if agent.flow is not None]
    return list(dict.fromkeys(stores))
