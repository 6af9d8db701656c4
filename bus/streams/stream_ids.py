"""An input that gives ids from the future begins anew, as soon as nothing is left in it.

Whoever adds an entry may give it an id of their own, say in microseconds. From then on the server
gives later ones alone, by
which records would be dated for ever; and after the last possible id it takes no entry at all. Nor
does its owner read any more
what comes before such an id, where somebody has moved the group there.
"""

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import GROUP, input_key

FAR_MS = 86_400_000  # ahead: more than clocks differ, and nothing for which a message would be lost

# KEYS: the input. ARGV: FAR_MS, the group. Returns whether it began anew.
_RENEW = (
    NOW
    + """
if redis.call('XLEN', KEYS[1]) > 0 or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local function is_ahead(told, name)
  for i = 1, #told, 2 do
    if told[i] == name then return tonumber(string.match(told[i + 1], '^%d+')) >= now + ARGV[1] end
  end
end
local ahead = is_ahead(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id')
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  ahead = ahead or group[2] == ARGV[2] and is_ahead(group, 'last-delivered-id')
end
if not ahead then return 0 end
redis.call('DEL', KEYS[1])
redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[2], '0', 'MKSTREAM')
return 1
"""
)


def is_far_ahead(ident: bytes, now_ms: int) -> bool:
    """Whether an entry's id is from the future."""
    return int(ident[: ident.find(b"-")]) > now_ms + FAR_MS


def renewal(uid: str) -> bytes:
    """The command, for the MULTI in which such an entry is deleted."""
    return pack("EVAL", _RENEW, 1, input_key(uid), FAR_MS, GROUP)


async def renew(connection: ReconnectingConnection, uid: str) -> bool:
    """The same at once; whether the input began anew. Raises BusRefused or BusUnavailable."""
    return bool(await connection.run_script(_RENEW, (input_key(uid),), FAR_MS, GROUP))


# No id is given a second time: by an input that has lost its last entries, at a server whose clock
# is behind.
#
# A message that came under the id of one that is done would be taken for it. So a fail-over to a
# replica that lacked some.

# KEYS: the input. ARGV: an id. The server refuses an id that is behind, and nobody sees the entry.
_SURPASS = """
local added = redis.pcall('XADD', KEYS[1], ARGV[1], 'swarm', '')
if type(added) == 'string' then return redis.call('XDEL', KEYS[1], added) end
return 0
"""


async def surpass(connection: ReconnectingConnection, uid: str, ident: str) -> bool:
    """Later ids are above this one; whether they would not have been. Raises BusRefused or
    BusUnavailable."""
    return bool(await connection.run_script(_SURPASS, (input_key(uid),), ident))
