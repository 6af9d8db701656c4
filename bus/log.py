"""Reading a swarm's log: what was said, oldest first or newest first, from a cursor on."""
import re
from typing import Any, NamedTuple

from bus.line import Line
from bus.wire import swarm_key

CURSOR = re.compile(r"(\d{1,20})-(\d{1,20})")   # an entry's id: Unix ms and a number


class Said(NamedTuple):
    """One message of a log."""

    cursor: str   # the log entry's id: where to go on from
    mid: str      # the message's own id, the same on a replay
    data: bytes   # the envelope

    @property
    def place(self) -> tuple[int, int]:
        """The cursor as something that can be compared."""
        return place_of(self.cursor)


def place_of(cursor: str) -> tuple[int, int]:
    """(Unix ms, number) of a cursor, such as `1780000000000-0`. Raises ValueError."""
    match = CURSOR.fullmatch(cursor)
    if match is None:
        raise ValueError("a cursor has the form 1780000000000-0")
    return int(match[1]), int(match[2])


def as_said(entries: list[tuple[bytes, list[bytes]]]) -> list[Said]:
    """Entries as the server sends them; what others added to the log in another form is left out."""
    found = []
    for ident, words in entries:
        fields = dict(zip(words[::2], words[1::2], strict=True))
        if b"mid" in fields and b"data" in fields:
            found.append(Said(ident.decode(), fields[b"mid"].decode(errors="replace"), fields[b"data"]))
    return found


async def read_log(line: Line, uid: str, swarm: str, *, after: str = "", limit: int) -> list[Said]:
    """Up to `limit` messages that came after a cursor, oldest first; from the oldest that is kept where there is none."""
    entries: Any = await line.call("XRANGE", swarm_key(uid, swarm), f"({after}" if after else "-", "+", "COUNT", limit)
    return as_said(entries)


async def read_log_back(line: Line, uid: str, swarm: str, *, before: str = "", limit: int) -> list[Said]:
    """Up to `limit` messages that came before a cursor, newest first; from the newest where there is none."""
    entries: Any = await line.call("XREVRANGE", swarm_key(uid, swarm), f"({before}" if before else "+", "-", "COUNT", limit)
    return as_said(entries)
