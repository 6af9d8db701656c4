"""Reading a swarm's log: what was said, oldest first or newest first, from a cursor on."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import swarm_key

CURSOR = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")  # an entry's id: Unix ms and a number
MID = re.compile(rb"[ !#-\[\]-~]{1,256}")  # what needs no escape in JSON
# entries that are asked for at once: at most so many long messages are in memory beyond what is
# wanted
CHUNK = 50
MOST_BYTES = 8 << 20  # of the messages of a page, after which it ends
_to_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
LARGEST = (
    2**63 - 1
)  # that either can be here: the server's own end has nothing after it, and is refused


class LogEntry(NamedTuple):
    """One message of a log."""

    cursor: str  # the log entry's id: where to go on from
    mid: str  # the message's own id, the same on a replay
    data: bytes  # the envelope

    @property
    def place(self) -> tuple[int, int]:
        """The cursor as something that can be compared."""
        return cursor_of(self.cursor)


def cursor_of(cursor: str) -> tuple[int, int]:
    """(Unix ms, number) of a cursor, such as `1780000000000-0`. Raises ValueError."""
    match = CURSOR.fullmatch(cursor)
    place = (int(match[1]), int(match[2])) if match else (LARGEST + 1, 0)
    if max(place) > LARGEST:
        raise ValueError("a cursor has the form 1780000000000-0")
    return place


def parse_log_entry(entries: list[tuple[bytes, list[bytes]]]) -> list[LogEntry]:
    """Entries as the server sends them; what others added to the log in another form is left
    out."""
    found = []
    for ident, words in entries:
        fields = dict(zip(words[::2], words[1::2], strict=True))
        mid, data = fields.get(b"mid"), fields.get(b"data", b"")
        if mid is not None and MID.fullmatch(mid) and _is_json(data):
            found.append(LogEntry(ident.decode(), mid.decode(), data))
    return found


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return _is_json_for_others(data)


def _is_json_for_others(data: bytes) -> bool:
    """An envelope may have numbers in it that are too large for us to count with; they are passed
    on as they came."""
    try:
        data.decode()
        _to_object(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


async def read_log(
    line: ReconnectingConnection,
    uid: str,
    swarm: str,
    *,
    after: str = "",
    limit: int,
    most_bytes: int = MOST_BYTES,
) -> list[LogEntry]:
    """The `limit` messages that came after a cursor, oldest first; from the oldest that is kept
    where there is none.

    They are fewer only where the log ends, and where they have more than `most_bytes`: `goes_on`
    tells.
    """
    return await _read(
        line,
        "XRANGE",
        (swarm_key(uid, swarm), f"({after}" if after else "-", "+"),
        limit,
        most_bytes,
    )


async def read_log_back(
    line: ReconnectingConnection, uid: str, swarm: str, *, before: str = "", limit: int
) -> list[LogEntry]:
    """The `limit` messages that came before a cursor, newest first; from the newest where there is
    none."""
    if before and cursor_of(before) == (0, 0):
        return []  # the server refuses an interval that can hold nothing
    return await _read(
        line,
        "XREVRANGE",
        (swarm_key(uid, swarm), f"({before}" if before else "+", "-"),
        limit,
        MOST_BYTES,
    )


def goes_on(said: Sequence[LogEntry], limit: int, most_bytes: int = MOST_BYTES) -> bool:
    """Whether more may come after a page that was read with this limit."""
    return len(said) == limit or sum(len(one.data) for one in said) >= most_bytes


async def _read(
    line: ReconnectingConnection,
    command: str,
    span: tuple[str, str, str],
    limit: int,
    most_bytes: int,
) -> list[LogEntry]:
    """Goes on where entries were left out, so that a short page of short messages always means the
    end."""
    (key, start, end), found = span, list[LogEntry]()
    while not goes_on(found, limit, most_bytes):
        count = min(limit - len(found), CHUNK)
        entries: Any = await line.call(command, key, start, end, "COUNT", count)
        _add(found, parse_log_entry(entries), most_bytes)
        if len(entries) < count:
            break
        start = "(" + entries[-1][0].decode()
    return found


def _add(found: list[LogEntry], more: list[LogEntry], most_bytes: int) -> None:
    """Up to the one with which the page is long enough."""
    size = sum(len(one.data) for one in found)
    for said in more:
        if size >= most_bytes:
            return
        found.append(said)
        size += len(said.data)
