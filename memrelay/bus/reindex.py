"""Requests to recompute the vectors of a pipeline: a hash from uid to a token.

A request is kept until the owner of the pipeline has begun.
"""

import re
import secrets

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import UID, find_cell, reindex_key
from memrelay.bus.malformed import MALFORMED

TOKEN = re.compile(r"[0-9a-f]{16}")


async def request_reindex(client: ReconnectingConnection, uid: str) -> None:
    """Ask the owner of a pipeline to recompute its vectors. Raises BusUnavailable, BusRefused."""
    await client.call("HSET", reindex_key(find_cell(uid)), uid, secrets.token_hex(8))


async def is_reindex_requested(client: ReconnectingConnection, uid: str) -> bool:
    """Return whether a request still waits for the owner."""
    return bool(await client.call("HEXISTS", reindex_key(find_cell(uid)), uid))


async def read_reindex_requests(client: ReconnectingConnection) -> dict[str, str]:
    """Return the token of each waiting request, by uid. Each new request has a new token.

    Requests in another form are deleted.
    """
    requests: dict[str, str] = {}
    for cell in client.cells:
        words: list[bytes] = await client.call("HGETALL", reindex_key(cell))
        for word, value in zip(words[::2], words[1::2], strict=True):
            uid, token = word.decode(errors="replace"), value.decode(errors="replace")
            if UID.fullmatch(uid) and TOKEN.fullmatch(token):
                requests[uid] = token
                continue
            MALFORMED.drop("reindex_request", f"{uid[:100]!r} has the token {token[:100]!r}")
            await client.call("HDEL", reindex_key(cell), word)
    return requests


async def clear_reindex_request(client: ReconnectingConnection, uid: str) -> None:
    """Delete a request, because the owner has begun."""
    await client.call("HDEL", reindex_key(find_cell(uid)), uid)
