"""Requests to recompute the vectors of a pipeline: a hash from uid to a token.

A request is kept until the owner of the pipeline has begun.
"""

import secrets

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import REMAKE


async def request_reindex(client: ReconnectingConnection, uid: str) -> None:
    """Ask the owner of a pipeline to recompute its vectors. Raises BusUnavailable, BusRefused."""
    await client.call("HSET", REMAKE, uid, secrets.token_hex(8))


async def is_reindex_requested(client: ReconnectingConnection, uid: str) -> bool:
    """Return whether a request still waits for the owner."""
    return bool(await client.call("HEXISTS", REMAKE, uid))


async def requested_reindexes(client: ReconnectingConnection) -> dict[str, str]:
    """Return the token of each waiting request, by uid. Each new request has a new token."""
    words: list[bytes] = await client.call("HGETALL", REMAKE)
    return dict(zip(map(bytes.decode, words[::2]), map(bytes.decode, words[1::2]), strict=True))


async def clear_reindex_request(client: ReconnectingConnection, uid: str) -> None:
    """Delete a request, because the owner has begun."""
    await client.call("HDEL", REMAKE, uid)
