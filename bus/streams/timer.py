"""A timer's tick: an entry for one agent, appended once in each interval, whoever asks for it and
however often."""

from memrelay.bus.client.connection import NOW, Connection, run_script
from memrelay.bus.keys import input_key, timers_key

# KEYS: the timers' hash, the input. ARGV: the agent's alias, its interval in ms, the envelope.
# Returns the ms that are left of the interval. Intervals are numbered from the Unix epoch, by the
# server's clock alone. The hash keeps, for each agent, its interval, the number of the last one
# that it was called in, and the entry. One number back, the clock was set back a little.
TICK = (
    NOW
    + """
local number = math.floor(now / ARGV[2])
local left = (number + 1) * ARGV[2] - now
local known = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local interval, last, entry = string.match(known, '^(%d+) (%d+) (%S+)$')
if interval == ARGV[2] then
  if number == tonumber(last) or number == tonumber(last) - 1 then return left end
  if #redis.call('XRANGE', KEYS[2], entry, entry) == 0 then
    entry = redis.call('XADD', KEYS[2], '*', 'agent', ARGV[1], 'data', ARGV[3])
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %s', ARGV[2], number, entry or '0-0'))
return left
"""
)


async def tick(connection: Connection, uid: str, agent: str, interval_ms: int, data: bytes) -> int:
    """Appends the envelope where this interval has none yet; returns how many ms are left of the
    interval.

    A new timer, and one whose interval has changed, begins with the next interval. While the last
    entry is not done there is no
    second one, so that they do not pile up. Raises BusRefused or BusUnavailable.
    """
    return int(
        await run_script(
            connection, TICK, (timers_key(uid), input_key(uid)), agent, interval_ms, data
        )
    )
