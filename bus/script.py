"""Scripts that the server runs, in Lua: each looks and changes at once."""

from collections.abc import Sequence
from typing import Any

from bus.connection import Connection
from bus.resp import Word

# At the beginning of a script: `now` is the server's time, Unix ms.
NOW = "local now = redis.call('TIME')\nnow = now[1] * 1000 + math.floor(now[2] / 1000)\n"


async def run_script(
    connection: Connection, script: str, keys: Sequence[str], *arguments: Word
) -> Any:
    """What a script returns. Raises BusRefused or BusUnavailable."""
    return await connection.call("EVAL", script, len(keys), *keys, *arguments)
