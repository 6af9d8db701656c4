"""Reads the log of a swarm from a cursor on, oldest or newest message first."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import swarm_key

# An entry's ID: Unix ms and a number.
CURSOR = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")
# A mid that needs no escape in JSON.
MID = re.compile(rb"[ !#-\[\]-~]{1,256}")
# Entries per command, which bounds the long messages in memory beyond those of the page.
CHUNK = 50
# A page ends when its messages have this many bytes.
MOST_BYTES = 8 << 20
# The greatest part of a cursor. The server refuses its own maximum as an exclusive start.
LARGEST = 2**63 - 1
_to_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class LogEntry(NamedTuple):
    """One message of a log."""

    cursor: str  # the entry's ID, to continue from
    mid: str  # the message's ID, the same after a replay
    data: bytes  # the envelope

    @property
    def place(self) -> tuple[int, int]:
        """Return the cursor in a form that can be compared."""
        return parse_cursor(self.cursor)


def parse_cursor(cursor: str) -> tuple[int, int]:
    """Parse a cursor such as `1780000000000-0` into (Unix ms, number). Raises ValueError."""
    match = CURSOR.fullmatch(cursor)
    place = (int(match[1]), int(match[2])) if match else (LARGEST + 1, 0)
    if max(place) > LARGEST:
        raise ValueError("a cursor has the form 1780000000000-0")
    return place


def parse_log_entries(entries: list[tuple[bytes, list[bytes]]]) -> list[LogEntry]:
    """Parse entries as the server sends them.

    Entries in another form, which another program added, are left out.
    """
    found = []
    for ident, words in entries:
        fields = dict(zip(words[::2], words[1::2], strict=True))
        mid, data = fields.get(b"mid"), fields.get(b"data", b"")
        if mid is not None and MID.fullmatch(mid) and _is_json(data):
            found.append(LogEntry(ident.decode(), mid.decode(), data))
    return found


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return _is_json_with_large_numbers(data)


def _is_json_with_large_numbers(data: bytes) -> bool:
    """Accept numbers that Python's JSON parser refuses; they are passed on unparsed."""
    try:
        data.decode()
        _to_object(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


async def read_log(
    client: ReconnectingConnection,
    uid: str,
    swarm: str,
    *,
    after: str = "",
    limit: int,
    most_bytes: int = MOST_BYTES,
) -> list[LogEntry]:
    """Return up to `limit` messages after a cursor, oldest first; without one, from the oldest.

    There are fewer only at the end of the log, or beyond `most_bytes`; see `goes_on`.
    """
    span = (swarm_key(uid, swarm), f"({after}" if after else "-", "+")
    return await _read(client, "XRANGE", span, limit, most_bytes)


async def read_log_backward(
    client: ReconnectingConnection, uid: str, swarm: str, *, before: str = "", limit: int
) -> list[LogEntry]:
    """Return up to `limit` messages before a cursor, newest first; without one, from the newest."""
    if before and parse_cursor(before) == (0, 0):
        return []  # the server refuses a range that cannot contain anything
    span = (swarm_key(uid, swarm), f"({before}" if before else "+", "-")
    return await _read(client, "XREVRANGE", span, limit, MOST_BYTES)


def may_continue(page: Sequence[LogEntry], limit: int, most_bytes: int = MOST_BYTES) -> bool:
    """Return whether more messages may follow a page that was read with this limit."""
    return len(page) == limit or sum(len(one.data) for one in page) >= most_bytes


async def _read(
    client: ReconnectingConnection,
    command: str,
    span: tuple[str, str, str],
    limit: int,
    most_bytes: int,
) -> list[LogEntry]:
    """Read on while entries were left out, so that a short page always means the end."""
    (key, start, end), found = span, list[LogEntry]()
    while not may_continue(found, limit, most_bytes):
        count = min(limit - len(found), CHUNK)
        entries: Any = await client.call(command, key, start, end, "COUNT", count)
        _add(found, parse_log_entries(entries), most_bytes)
        if len(entries) < count:
            break
        start = "(" + entries[-1][0].decode()
    return found


def _add(page: list[LogEntry], entries: list[LogEntry], most_bytes: int) -> None:
    """Add entries until the page has `most_bytes`."""
    size = sum(len(one.data) for one in page)
    for entry in entries:
        if size >= most_bytes:
            return
        page.append(entry)
        size += len(entry.data)
