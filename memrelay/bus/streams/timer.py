"""Timer ticks: an entry for one agent, appended once per interval, however many workers ask."""

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
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
    """Append the envelope unless this interval has one, and return the ms left of the interval.

    A new timer, or one whose interval changed, starts with the next interval. No entry is appended
    while the last one is not processed, so that entries do not pile up. Raises BusRefused and
    BusUnavailable.
    """
    keys = (timers_key(uid), input_key(uid))
    return int(await client.run_script(TICK, keys, agent, interval_ms, data))
