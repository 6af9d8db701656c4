"""The input of a pipeline: calls of timers, IDs after a failover, and the size of a read."""

from typing import NamedTuple

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.client.resp import Word
from memrelay.bus.errors import BusError
from memrelay.bus.keys import input_key, timers_key

# KEYS: the hash of the timers, the input. ARGV: the agent's alias, its interval in ms, the
# envelope. Returns the ms left of the interval. Intervals are numbered from the Unix epoch by the
# server's clock. The hash keeps for each agent its interval, the number of its last interval and
# its last entry. If the number is one lower, the clock was set back a little. Another value in the
# hash, which another program wrote, counts as none.
TICK = (
    NOW
    + """
local number = math.floor(now / ARGV[2])
local left = (number + 1) * ARGV[2] - now
local known = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local interval, last, entry = string.match(known, '^(%d+) (%d+) (%S+)$')
if interval == ARGV[2] then
  if number == tonumber(last) or number == tonumber(last) - 1 then return left end
  local kept = redis.pcall('XRANGE', KEYS[2], entry, entry)
  if kept.err or #kept == 0 then
    entry = redis.call('XADD', KEYS[2], '*', 'agent', ARGV[1], 'data', ARGV[3])
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %s', ARGV[2], number, entry or '0-0'))
return left
"""
)


async def tick(
    client: ReconnectingConnection, uid: str, agent: str, interval_ms: int, data: bytes
) -> int:
    """Append an envelope for one agent, once per interval, however many workers ask.

    Return the ms left of the interval. A new timer, or one whose interval changed, starts with the
    next interval. No entry is appended while the last one is not processed, so that entries do not
    pile up. Raises BusRefused and BusUnavailable.
    """
    keys = (timers_key(uid), input_key(uid))
    return int(await client.run_script(TICK, keys, agent, interval_ms, data))


class Slot(NamedTuple):
    """A time at which an agent's schedule calls it, in Unix ms; 0 for none yet.

    `schedule` identifies the schedule and has no spaces. A schedule that the server does not know
    starts after `start_ms`.
    """

    agent: str
    schedule: str
    at_ms: int
    start_ms: int


# KEYS: the hash of the timers, the input. ARGV: the agent's alias, its schedule, the slot and the
# start in ms, the envelope. Returns 0 if the last entry is not processed, and otherwise 1: the slot
# is served, now or before. The hash keeps for each agent its schedule, its last slot and its last
# entry. A slot over an hour ahead is from a clock that was wrong, and counts as none.
_RUN_SLOT = (
    NOW
    + """
local slot, start = tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local schedule, last, entry = string.match(known, '^(%S+) (%d+) (%S+)$')
last = tonumber(last)
local is_known = schedule == ARGV[2] and last <= now + 3600000
if not is_known then last, entry = start, '0-0' end
if slot > last then
  local kept = redis.pcall('XRANGE', KEYS[2], entry, entry)
  if not kept.err and #kept > 0 then return 0 end
  entry = redis.call('XADD', KEYS[2], '*', 'agent', ARGV[1], 'data', ARGV[5])
  last = slot
elseif is_known then
  return 1
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %s', ARGV[2], last, entry))
return 1
"""
)


async def run_slot(client: ReconnectingConnection, uid: str, slot: Slot, data: bytes) -> bool:
    """Append an envelope for the agent of a slot, once per slot, however many workers ask.

    Return whether the slot is served, now or before. It is not while the last entry is not
    processed, so that entries do not pile up. Raises BusRefused and BusUnavailable.
    """
    keys = (timers_key(uid), input_key(uid))
    return bool(await client.run_script(_RUN_SLOT, keys, *slot, data))


# KEYS: the input. ARGV: an ID. XADD fails if the ID is not above the last one. Otherwise the entry
# is deleted within the same script, so no reader sees it.
_SURPASS = """
local added = redis.pcall('XADD', KEYS[1], ARGV[1], 'swarm', '')
if type(added) == 'string' then return redis.call('XDEL', KEYS[1], added) end
return 0
"""


async def raise_last_id(connection: ReconnectingConnection, uid: str, ident: str) -> bool:
    """Make the server assign only IDs above `ident` to new entries.

    After a failover to a replica that lacks the last entries, the server could assign their IDs
    again. A message under such an ID would count as processed. Return whether the input had lost
    entries, so that its last ID was lower. Raises BusRefused and BusUnavailable.
    """
    return bool(await connection.run_script(_SURPASS, (input_key(uid),), ident))


# Bytes of one input that are read at once, except for a single larger entry. The server bounds a
# read only by its number of entries.
READ_BYTES = 16 << 20
# Nodes of the stream that the server measures. Each has at least one entry.
SAMPLES = 256


def measure_command(key: Word) -> tuple[Word, ...]:
    """Return the command that estimates the bytes of an input."""
    return "MEMORY", "USAGE", key, "SAMPLES", SAMPLES


def count_fitting(size: int, length: int, most: int) -> int:
    """Return how many entries of an input with `length` entries and `size` bytes are read."""
    if size <= READ_BYTES:
        return most
    return max(1, min(most, READ_BYTES * length // size))


async def read_count(client: ReconnectingConnection, key: Word, most: int) -> int:
    """Return how many entries of an input or a log, up to `most`, may be read at once.

    A server that refuses to measure turns the limit off. Raises BusUnavailable.
    """
    commands = (("XLEN", key), measure_command(key))
    length, size = await client.call_all(commands, keep_refusals=True)
    if isinstance(length, BusError) or isinstance(size, BusError):
        return most
    return count_fitting(size or 0, length, most)
