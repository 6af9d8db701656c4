"""No id is given a second time: by an input that has lost its last entries, at a server whose clock
is behind.

A message that came under the id of one that is done would be taken for it. So a fail-over to a
replica that lacked some.
"""

from bus.connection import Connection
from bus.script import run_script
from bus.wire import input_key

# KEYS: the input. ARGV: an id. The server refuses an id that is behind, and nobody sees the entry.
_SURPASS = """
local added = redis.pcall('XADD', KEYS[1], ARGV[1], 'swarm', '')
if type(added) == 'string' then return redis.call('XDEL', KEYS[1], added) end
return 0
"""


async def surpass(connection: Connection, uid: str, ident: str) -> bool:
    """Later ids are above this one; whether they would not have been. Raises BusRefused or
    BusUnavailable."""
    return bool(await run_script(connection, _SURPASS, (input_key(uid),), ident))
