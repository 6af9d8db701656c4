"""Takes entries out of streams for good: out of the stream, and out of the file in which the server
keeps it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from memrelay.bus.client.connection import Connection
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import input_key, swarm_key

PAGE = 100  # entries that are looked at together
LOOK_S = 0.05  # between two looks whether the file is written
IN_PROGRESS = "in progress"
NOT_AN_INPUT = b"op"  # a call has been answered, or is yet to be
Holds = Callable[[bytes], bool]


async def purge(
    control: Connection, uids: Iterable[str], public: Iterable[str], before_ms: int, holds: Holds
) -> int:
    """Deletes messages that hold something: from these pipelines' logs, those of the public swarms,
    and unread input that came
    up to that moment. How many there were. Raises BusUnavailable and BusRefused.
    """
    count = 0
    for uid in uids:
        count += await _sweep(control, input_key(uid), f"{before_ms}", holds)
        for log in await _logs(control, uid):
            count += await _sweep(control, log, "+", holds)
    for name in public:
        count += await _sweep(control, swarm_key("public", name), "+", holds)
    return count


async def _logs(control: Connection, uid: str) -> list[bytes]:
    """Also those of swarms that no version of the bundle has any more."""
    cursor: Any = b"0"
    found: list[bytes] = []
    while True:
        cursor, keys = await control.call(
            "SCAN", cursor, "MATCH", swarm_key(uid, "*"), "COUNT", 1000, "TYPE", "stream"
        )
        found += keys
        if cursor == b"0":
            return found


async def _sweep(control: Connection, key: str | bytes, end: str, holds: Holds) -> int:
    """Up to the entry that is the last one now."""
    newest = await control.call("XREVRANGE", key, end, "-", "COUNT", 1)
    last, start, count = (newest[0][0] if newest else b""), "-", 0
    while last:
        entries = await control.call("XRANGE", key, start, last, "COUNT", PAGE)
        unwanted = [ident for ident, words in entries if _is_unwanted(words, holds)]
        if unwanted:
            count += await control.call("XDEL", key, *unwanted)
        if len(entries) < PAGE:
            break
        start = "(" + entries[-1][0].decode()
    return count


def _is_unwanted(words: list[bytes], holds: Holds) -> bool:
    fields = dict(zip(words[::2], words[1::2], strict=True))
    return NOT_AN_INPUT not in fields and any(map(holds, fields.values()))


async def rewrite_file(control: Connection) -> str:
    """Has the server write its append-only file anew, and waits for it. What is left there, and
    why; "" for nothing.

    Raises BusUnavailable and BusRefused.
    """
    before = await _persistence(control)
    if before.get("aof_enabled") != "1":
        return "the server has no append-only file; what it saves itself is not looked at"
    while True:
        try:
            await control.call("BGREWRITEAOF")
            break
        except BusRefused as error:
            if IN_PROGRESS not in str(error):
                return f"the server refuses BGREWRITEAOF ({error}): its file has the messages until it is written anew"
            await asyncio.sleep(LOOK_S)  # one that began before: it may have what was deleted since
    while True:
        await asyncio.sleep(LOOK_S)
        now = await _persistence(control)
        if now.get("aof_rewrite_in_progress") == now.get("aof_rewrite_scheduled") == "0":
            break
    if now.get("aof_last_bgrewrite_status") != "ok":
        return "the server could not write its append-only file anew; its log says why"
    return await _kept_in_dumps(control)


async def _persistence(control: Connection) -> dict[str, str]:
    told = (await control.call("INFO", "persistence")).decode()
    return dict(line.split(":", 1) for line in told.splitlines() if ":" in line)


async def _kept_in_dumps(control: Connection) -> str:
    """A dump of a stream has whole blocks, with what was deleted in them."""
    try:
        told = await control.call("CONFIG", "GET", "aof-use-rdb-preamble")
    except BusRefused:
        return "the server does not say whether it writes dumps, which keep deleted entries of a stream for a while"
    return (
        ""
        if b"no" in told
        else (
            "the server writes dumps (aof-use-rdb-preamble yes), which keep deleted entries of "
            "streams until all entries beside them are deleted too"
        )
    )
