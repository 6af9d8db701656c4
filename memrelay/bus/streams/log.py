"""Reads the log of a swarm: from a cursor on, the latest entries, or the messages of one input."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.errors import BusRefused
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
        pass
    # Numbers that orjson refuses are valid, and are passed on unparsed.
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
    (key, start, end), page, size = span, list[LogEntry](), 0
    while len(page) < limit and size < most_bytes:
        count = min(limit - len(page), CHUNK)
        entries: Any = await client.call(command, key, start, end, "COUNT", count)
        for entry in parse_log_entries(entries):
            if size < most_bytes:
                page.append(entry)
                size += len(entry.data)
        if len(entries) < count:
            break
        start = "(" + entries[-1][0].decode()
    return page


# Bytes of an envelope that contain the name of its sender.
HEAD_BYTES = 600
# KEYS: a log. ARGV: the age of the oldest entry in ms, the number of entries, bytes of an envelope.
# Returns [mid, head, ...], the newest entry first.
_READ_HEADS = (
    NOW
    + """
local found, oldest = {}, string.format('%.0f', now - ARGV[1])
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', oldest, 'COUNT', ARGV[2])) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  found[#found + 1] = fields.mid or ''
  found[#found + 1] = string.sub(fields.data or '', 1, ARGV[3])
end
return found
"""
)


class RecentEntry(NamedTuple):
    """An entry of a log. `head` is the beginning of its envelope, whose text may be long."""

    mid: str
    head: bytes


async def read_recent(
    line: ReconnectingConnection,
    logs: Sequence[tuple[str, str]],
    *,
    within_ms: int,
    limit: int,
) -> list[list[RecentEntry]]:
    """Return up to `limit` entries of each log (uid, swarm) that are at most `within_ms` old.

    A log that the server refuses to read has none. Raises BusUnavailable.
    """
    commands = [
        ("EVAL", _READ_HEADS, 1, swarm_key(uid, swarm), within_ms, limit, HEAD_BYTES)
        for uid, swarm in logs
    ]
    if not commands:
        return []
    return [_parse(reply) for reply in await line.call_all(commands, keep_refusals=True)]


def _parse(reply: Any) -> list[RecentEntry]:
    if isinstance(reply, BusRefused):
        return []
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [RecentEntry(mid.decode(errors="replace"), head) for mid, head in pairs]


# Entries that one run of `_FIND` reads, which bounds how long the server is busy.
SCRIPT_CHUNK = 256
# Entries of a log that are read for one message.
MAX_SCANNED = 100_000
# The clock of a new primary may be behind that of the failed one.
CLOCK_MARGIN_MS = 60_000

# KEYS: a log. ARGV: where to begin, how many entries to read, prefixes of the mid. Returns the ID
# of the last entry, the number of entries, and the entries with one of the prefixes.
_FIND = """
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
local found, last = {}, ''
for _, entry in ipairs(entries) do
  last = entry[1]
  for at = 1, #entry[2], 2 do
    if entry[2][at] == 'mid' then
      for number = 3, #ARGV do
        if string.sub(entry[2][at + 1], 1, #ARGV[number]) == ARGV[number] then
          found[#found + 1] = entry
        end
      end
    end
  end
end
return {last, #entries, found}
"""


class MessageLog(NamedTuple):
    """The messages of one input in one log, oldest first.

    `is_complete` is False if messages may be missing: the log was trimmed past the input, or a
    limit was reached.
    """

    entries: list[LogEntry]
    is_complete: bool


async def read_message_log(
    client: ReconnectingConnection, owner: str, swarm: str, prefixes: Sequence[str], limit: int
) -> MessageLog:
    """Return the messages whose mid begins with one of the prefixes, at most `limit`.

    Each prefix ends with `<entry>.`, the ID of the input that led to the message. Raises
    BusUnavailable and BusRefused.
    """
    key, entry_ms = swarm_key(owner, swarm), int(prefixes[0].rpartition("/")[2].partition("-")[0])
    start, found = f"{max(0, entry_ms - CLOCK_MARGIN_MS)}-0", list[LogEntry]()
    for _ in range(MAX_SCANNED // SCRIPT_CHUNK):
        last, count, entries = await client.run_script(_FIND, [key], start, SCRIPT_CHUNK, *prefixes)
        found += parse_log_entries(entries)
        if len(found) > limit:
            return MessageLog(found[:limit], is_complete=False)
        if count < SCRIPT_CHUNK:
            return MessageLog(found, not await _is_trimmed(client, key, entry_ms))
        start = "(" + last.decode()
    return MessageLog(found, is_complete=False)


async def _is_trimmed(client: ReconnectingConnection, key: str, entry_ms: int) -> bool:
    """Return whether the log has lost entries, and the oldest remaining one is later than the
    input.
    """
    if not await client.call("EXISTS", key):
        return False
    words: list[Any] = await client.call("XINFO", "STREAM", key)
    facts = dict(zip(words[::2], words[1::2], strict=True))
    first = facts[b"first-entry"]
    if facts[b"entries-added"] == facts[b"length"]:
        return False
    return not first or parse_cursor(first[0].decode())[0] > entry_ms
