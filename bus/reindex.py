"""Asking the owner of a pipeline to make its vectors anew: a hash from uid to a token, until the
owner has begun."""

import secrets

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import REMAKE


async def request_reindex(line: ReconnectingConnection, uid: str) -> None:
    """Whoever owns the pipeline, or comes to own it, will. Raises BusUnavailable or BusRefused."""
    await line.call("HSET", REMAKE, uid, secrets.token_hex(8))


async def is_reindex_requested(line: ReconnectingConnection, uid: str) -> bool:
    """Whether it waits for its owner yet."""
    return bool(await line.call("HEXISTS", REMAKE, uid))


async def requested_reindexes(connection: Connection) -> dict[str, str]:
    """Which pipelines wait, by uid, each with a token: another one is another wish."""
    words: list[bytes] = await connection.call("HGETALL", REMAKE)
    return dict(zip(map(bytes.decode, words[::2]), map(bytes.decode, words[1::2]), strict=True))


async def clear_reindex_request(connection: Connection, uid: str) -> None:
    """It has begun."""
    await connection.call("HDEL", REMAKE, uid)
