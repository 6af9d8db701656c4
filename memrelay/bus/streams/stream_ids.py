"""Keeps the entry IDs of an input above those that were already processed.

After a failover to a replica that lacks the last entries, the server could assign their IDs again.
A message under such an ID would count as processed.
"""

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import input_key

# KEYS: the input. ARGV: an ID. XADD fails if the ID is not above the last one. Otherwise the entry
# is deleted within the same script, so no reader sees it.
_SURPASS = """
local added = redis.pcall('XADD', KEYS[1], ARGV[1], 'swarm', '')
if type(added) == 'string' then return redis.call('XDEL', KEYS[1], added) end
return 0
"""


async def raise_last_id(connection: ReconnectingConnection, uid: str, ident: str) -> bool:
    """Make the server assign only IDs above `ident` to new entries.

    Return whether the input had lost entries, so that its last ID was lower. Raises BusRefused and
    BusUnavailable.
    """
    return bool(await connection.run_script(_SURPASS, (input_key(uid),), ident))
