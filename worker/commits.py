"""What the bus knows of the stores: the last commit of each that was acknowledged, so that one that lost some is found out.

`pipeline:{uid}:stores` is a hash from `memory_id` to the store's mark (memory/sqlite/commits.py).
"""
from collections.abc import Iterable, Mapping

from bus.connection import Connection
from bus.resp import pack
from bus.wire import stores_key
from pipelines.plan import Plan


def commits_to_tell(plans: Iterable[Plan], marks: Mapping[str, str]) -> list[bytes]:
    """The commands, for the MULTI that acknowledges what these commits did; `marks` has the last commit of each store."""
    commands = []
    for plan in plans:
        if words := [word for name in plan.every_store if name in marks for word in (name, marks[name])]:
            commands.append(pack("HSET", stores_key(plan.uid), *words))
    return commands


async def read_commits(connection: Connection, uids: Iterable[str]) -> list[tuple[str, str]]:
    """(memory_id, mark) of every commit that these pipelines told of. Raises BusUnavailable or BusRefused."""
    found = []
    for uid in uids:
        words: list[bytes] = await connection.call("HGETALL", stores_key(uid))
        found += list(zip(map(bytes.decode, words[::2]), map(bytes.decode, words[1::2]), strict=True))
    return found
