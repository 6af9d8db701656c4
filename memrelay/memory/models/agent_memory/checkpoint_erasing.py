"""Erase texts and identifiers from checkpoints: the messages, values and writes with them.

A message is an item of a list, and so one part. It leaves all checkpoints of its thread, and takes
along the calls of tools and the results that belong to it.
Values and texts are searched as UTF-8, as serializers write them.
"""

from collections.abc import Iterable, Sequence

import apsw
import orjson

from memrelay.memory.engine.erasures import ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.store import Store
from memrelay.memory.models.agent_memory.checkpoint_table import (
    COLUMNS,
    Checkpoint,
    CheckpointTable,
    Write,
    from_text,
    to_text,
    unpack,
)
from memrelay.memory.models.agent_memory.conversations import calls_in, is_of_user, turn_thread

ALL_WRITES = (
    f"SELECT {', '.join(Write._fields)} FROM checkpoint_writes WHERE agent = ? AND thread = ?"
)
DELETE_WRITE = (
    "DELETE FROM checkpoint_writes WHERE agent = ? AND thread = ? AND ns = ? AND id = ? "
    "AND task = ? AND idx = ?"
)
ALL_VALUES = "SELECT n, value FROM checkpoint_values WHERE agent = ? AND thread = ?"
ALL_CHECKPOINTS = f"SELECT {COLUMNS} FROM checkpoints WHERE agent = ? AND thread = ?"


class CheckpointErasure(ModelErasure):
    """Erases from the checkpoints of one store."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._checkpoints = store.table(CheckpointTable)

    def erase(self, matcher: Matcher) -> None:
        """Delete every value, write, checkpoint and thread that the matcher finds.

        Checkpoints with deleted values stay without them.
        """
        for agent in self._checkpoints.agents():
            for thread in self._checkpoints.threads(agent):
                if matcher.in_text(agent) or matcher.in_text(thread):
                    self._checkpoints.delete_thread(agent, thread)
                else:
                    _erase_in_thread(self._connection, self._checkpoints, (agent, thread), matcher)

    def forget_calls(self, ids: Sequence[str]) -> None:
        """Delete the responses of a model that were committed for deferred calls."""
        threads = [(turn_thread(ident),) for ident in ids]
        for table in ("checkpoint_writes", "checkpoints"):
            self._connection.executemany(f"DELETE FROM {table} WHERE thread = ?", threads)


def _erase_in_thread(
    connection: apsw.Connection, table: CheckpointTable, place: tuple[str, str], matcher: Matcher
) -> None:
    for write in [Write(*row) for row in connection.execute(ALL_WRITES, place)]:
        if _contains(matcher, (*write[2:5], *write[6:9]), write.value):
            connection.execute(DELETE_WRITE, write[:6])
    values = dict(connection.execute(ALL_VALUES, place))
    numbers = {number for number, value in values.items() if _contains(matcher, (), value)}
    numbers |= _same_calls(values, numbers)
    gone, changed = [], []
    for one in [Checkpoint(*row) for row in connection.execute(ALL_CHECKPOINTS, place)]:
        if _contains(
            matcher, (one.ns, one.id, one.metadata, one.channels, one.run), one.checkpoint
        ):
            gone.append(one.key)
        elif numbers.intersection(from_text(one.numbers)):
            changed.append(_without(one, numbers))
    table.delete(gone)
    table.replace(*place, changed)


def _same_calls(values: dict[int, bytes], numbers: set[int]) -> set[int]:
    """Return the parts with calls and results of the same tool calls: a model service refuses
    one without the other. Services repeat the ids, so only calls of the same turn are the same.
    """
    calls, turn = dict[int, set[tuple[int, str]]](), 0
    for number in sorted(values) if numbers else ():
        turn += is_of_user(values[number])
        calls[number] = {(turn, ident) for ident in calls_in(values[number])}
    found, wanted = set(numbers), set[tuple[int, str]]()
    while True:
        wanted |= {ident for number in found for ident in calls.get(number, ())}
        more = {number for number, idents in calls.items() if idents & wanted} - found
        if not more:
            return found
        found |= more


def _contains(matcher: Matcher, texts: Iterable[str], value: bytes) -> bool:
    """Return whether one of the texts, or the stored value, has what the matcher finds."""
    try:
        data = unpack(value)
    except ValueError:
        data = value
    return matcher.in_data(data) or any(map(matcher.in_text, texts))


def _without(one: Checkpoint, numbers: set[int]) -> Checkpoint:
    """Return a checkpoint without these parts: without items of lists, and without other values."""
    parts, kept, channels, at = from_text(one.numbers), list[int](), list[list[object]](), 0
    for name, kind, items in orjson.loads(one.channels):
        count = 1 if items is None else items
        mine = [number for number in parts[at : at + count] if number not in numbers]
        at += count
        kept += mine
        if items is not None or mine:
            channels.append([name, kind, None if items is None else len(mine)])
    return one._replace(channels=orjson.dumps(channels).decode(), numbers=to_text(kept))
