"""What the bus knows of the stores: the last commit of each that was acknowledged, so that one that
lost some is found out.

`pipeline:{uid}:stores` is a hash from `memory_id` to the store's mark (memory/sqlite/commits.py).
"""

import re
from collections.abc import Iterable, Mapping

from bus.connection import Connection
from bus.resp import pack
from bus.wire import stores_key
from memory.memory_id import is_memory_id
from pipelines.plan import Plan

MARK = re.compile(rb"[ -9;-~]*:[0-9]{1,18}")  # anything else is somebody else's, and tells nothing


def commits_to_tell(plans: Iterable[Plan], marks: Mapping[str, str]) -> list[bytes]:
    """The commands, for the MULTI that acknowledges what these commits did; `marks` has the last
    commit of each store."""
    commands = []
    for plan in plans:
        if words := [
            word for name in plan.every_store if name in marks for word in (name, marks[name])
        ]:
            commands.append(pack("HSET", stores_key(plan.uid), *words))
    return commands


async def read_commits(connection: Connection, uids: Iterable[str]) -> list[tuple[str, str]]:
    """(memory_id, mark) of every commit that these pipelines told of. Raises BusUnavailable or
    BusRefused."""
    found = []
    for uid in uids:
        words: list[bytes] = await connection.call("HGETALL", stores_key(uid))
        told = {
            name.decode(errors="replace"): mark
            for name, mark in zip(words[::2], words[1::2], strict=True)
        }
        found += [
            (name, mark.decode())
            for name, mark in told.items()
            if is_memory_id(name) and MARK.fullmatch(mark)
        ]
    return found
