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


class LogPurge:
    """Deletes messages from logs and inputs. A later pass reads what arrived since the last one.

    It covers input that is unread and arrived up to `before_ms`. Methods raise BusUnavailable and
    BusRefused.
    """

    def __init__(self, client: ReconnectingConnection, before_ms: int) -> None:
        self._client, self._before = client, f"{before_ms}"
        # The last entry that was read, by stream.
        self._read: dict[str | bytes, str] = {}

    async def purge_pipeline(self, uid: str, holds: Holds) -> int:
        """Delete messages of a pipeline for which `holds` is true, and return how many there were.

        This covers its input and its swarm logs.
        """
        count = await self._purge_stream(input_key(uid), self._before, holds)
        for log in await _find_logs(self._client, uid):
            count += await self._purge_stream(log, "+", holds)
        return count

    async def purge_public(self, public: Iterable[str], holds: Holds) -> int:
        """Do the same for the logs of public swarms."""
        count = 0
        for name in public:
            count += await self._purge_stream(swarm_key(PUBLIC, name), "+", holds)
        return count

    async def _purge_stream(self, key: str | bytes, end: str, holds: Holds) -> int:
        """Purge up to the entry that is the newest one at the start."""
        client, count = self._client, 0
        newest = await client.call("XREVRANGE", key, end, "-", "COUNT", 1)
        last = newest[0][0] if newest else b""
        while last:
            start = f"({self._read[key]}" if key in self._read else "-"
            most = await read_count(client, key, PAGE)
            entries = await client.call("XRANGE", key, start, last, "COUNT", most)
            unwanted = [ident for ident, words in entries if _is_unwanted(words, holds)]
            if unwanted:
                count += await client.call("XDEL", key, *unwanted)
            if entries:
                self._read[key] = entries[-1][0].decode()
            if len(entries) < most:
                break
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
