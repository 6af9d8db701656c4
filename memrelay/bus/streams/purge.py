"""Erases entries from streams, and from the append-only file in which the server keeps them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.info import parse_info
from memrelay.bus.keys import PUBLIC, input_key, swarm_key
from memrelay.bus.streams.input_stream import read_count

# Entries that are read together.
PAGE = 100
# Between two checks whether the file is rewritten.
POLL_S = 0.05
IN_PROGRESS = "in progress"
# An entry with this field is a call, not a message.
NOT_AN_INPUT = b"op"
Holds = Callable[[bytes], bool]


async def purge(
    client: ReconnectingConnection,
    uids: Iterable[str],
    public: Iterable[str],
    before_ms: int,
    holds: Holds,
) -> int:
    """Delete all messages for which `holds` is true, and return how many there were.

    This covers the swarm logs of the pipelines `uids`, the logs of the `public` swarms, and input
    that is unread and arrived up to `before_ms`. Raises BusUnavailable and BusRefused.
    """
    count = 0
    for uid in uids:
        count += await _purge_stream(client, input_key(uid), f"{before_ms}", holds)
        for log in await _find_logs(client, uid):
            count += await _purge_stream(client, log, "+", holds)
    for name in public:
        count += await _purge_stream(client, swarm_key(PUBLIC, name), "+", holds)
    return count


async def _find_logs(client: ReconnectingConnection, uid: str) -> list[bytes]:
    """Return the logs of all swarms, including those that the bundle no longer has."""
    cursor: Any = b"0"
    found: list[bytes] = []
    while True:
        cursor, keys = await client.call(
            "SCAN", cursor, "MATCH", swarm_key(uid, "*"), "COUNT", 1000, "TYPE", "stream"
        )
        found += keys
        if cursor == b"0":
            return found


async def _purge_stream(
    client: ReconnectingConnection, key: str | bytes, end: str, holds: Holds
) -> int:
    """Purge up to the entry that is the newest one at the start."""
    newest = await client.call("XREVRANGE", key, end, "-", "COUNT", 1)
    last, start, count = (newest[0][0] if newest else b""), "-", 0
    while last:
        most = await read_count(client, key, PAGE)
        entries = await client.call("XRANGE", key, start, last, "COUNT", most)
        unwanted = [ident for ident, words in entries if _is_unwanted(words, holds)]
        if unwanted:
            count += await client.call("XDEL", key, *unwanted)
        if len(entries) < most:
            break
        start = "(" + entries[-1][0].decode()
    return count


def _is_unwanted(words: list[bytes], holds: Holds) -> bool:
    fields = dict(zip(words[::2], words[1::2], strict=True))
    return NOT_AN_INPUT not in fields and any(map(holds, fields.values()))


async def rewrite_file(client: ReconnectingConnection) -> str:
    """Have the server rewrite its append-only file, and wait until it did.

    Return why deleted messages may still be in a file, "" if they are not. Raises BusUnavailable
    and BusRefused.
    """
    before = await _read_persistence(client)
    if before.get("aof_enabled") != "1":
        return "the server has no append-only file; files that it saves otherwise are not checked"
    if refusal := await _start_rewrite(client):
        return refusal
    while True:
        await asyncio.sleep(POLL_S)
        now = await _read_persistence(client)
        if now.get("aof_rewrite_in_progress") == now.get("aof_rewrite_scheduled") == "0":
            break
    if now.get("aof_last_bgrewrite_status") != "ok":
        return "the server could not rewrite its append-only file; see its log"
    return await _check_dumps(client)


async def _start_rewrite(client: ReconnectingConnection) -> str:
    """Start a rewrite, after one that is in progress: that one may contain deleted entries."""
    while True:
        try:
            await client.call("BGREWRITEAOF")
            return ""
        except BusRefused as error:
            if IN_PROGRESS not in str(error):
                return (
                    f"the server refuses BGREWRITEAOF ({error}): its file contains the messages "
                    "until it is rewritten"
                )
            await asyncio.sleep(POLL_S)


async def _read_persistence(client: ReconnectingConnection) -> dict[str, str]:
    return parse_info(await client.call("INFO", "persistence"))


async def _check_dumps(client: ReconnectingConnection) -> str:
    """Return a warning if the file contains dumps, which keep whole blocks of a stream."""
    try:
        reply = await client.call("CONFIG", "GET", "aof-use-rdb-preamble")
    except BusRefused:
        return (
            "the server does not reveal whether it writes dumps, which keep deleted entries of a "
            "stream for a while"
        )
    if b"no" in reply:
        return ""
    return (
        "the server writes dumps (aof-use-rdb-preamble yes), which keep deleted entries of a "
        "stream until all entries of the same block are deleted"
    )
