"""Writes new records, for blocks and operations. Records are never deduplicated (seed 000)."""

import orjson
from msgspec import Struct

from memrelay.memory.records.record import PLAIN, Further
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State


class WriteInput(Struct, frozen=True, gc=False):
    """A record to write. `now_ms` is Unix ms. A struct for speed, like Message."""

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: tuple[str, ...]
    now_ms: int
    thread: str = ""  # the conversation that it is a turn of, if any
    seq: int | None = None  # the position in the thread; by default the end
    expires_at: int | None = None  # Unix ms
    further: Further = PLAIN  # its thread and seq are ignored


def write(tx: Transaction, new: WriteInput) -> str:
    """Store the record and return its guid."""
    tags = orjson.dumps(new.tags).decode() if new.tags else "[]"
    record = (new.guid, new.scope, new.kind, new.content, new.source, tags, new.now_ms, new.now_ms)
    if new.expires_at is not None or new.further is not PLAIN:
        tx.records.insert_whole(_whole(new, tags))
    elif new.thread:
        tx.records.insert_turn(record, new.thread, new.seq)
    else:
        tx.records.insert(record)
    return new.guid


def _whole(new: WriteInput, tags: str) -> State:
    further = new.further
    return State(
        new.guid,
        1,
        new.scope,
        new.kind,
        new.source,
        tags,
        new.now_ms,
        new.now_ms,
        further.key,
        further.owner,
        further.data,
        new.expires_at,
        further.in_context,
        encrypted=0,
        thread=new.thread or None,
        seq=new.seq,
        crc=None,
        content=new.content,
    )
