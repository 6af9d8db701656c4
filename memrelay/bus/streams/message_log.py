"""Finds the messages of one input in the log of a swarm.

A message's `mid` begins with the ID of the input entry that led to it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import swarm_key
from memrelay.bus.streams.log import LogEntry, parse_cursor, parse_log_entries

# Entries that one run of the script reads, which bounds how long the server is busy.
CHUNK = 256
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

    Each prefix ends with `<entry>.`, the ID of the input. Raises BusUnavailable and BusRefused.
    """
    key, entry_ms = swarm_key(owner, swarm), _entry_ms(prefixes[0])
    start, found = f"{max(0, entry_ms - CLOCK_MARGIN_MS)}-0", list[LogEntry]()
    for _ in range(MAX_SCANNED // CHUNK):
        last, count, entries = await client.run_script(_FIND, [key], start, CHUNK, *prefixes)
        found += parse_log_entries(entries)
        if len(found) > limit:
            return MessageLog(found[:limit], is_complete=False)
        if count < CHUNK:
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


def _entry_ms(prefix: str) -> int:
    return int(prefix.rpartition("/")[2].partition("-")[0])
