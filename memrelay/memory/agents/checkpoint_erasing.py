"""Erase texts and identifiers from checkpoints: the messages, values and writes with them.

A message is an item of a list, and so one part. It leaves all checkpoints of its thread, and takes
along the calls of tools and the results that belong to it.
Values and texts are searched as UTF-8, as serializers write them.
"""

from collections.abc import Iterable
from typing import Protocol

import apsw
import orjson

from memrelay.memory.agents.checkpoint_parts import from_text, to_text, unpack
from memrelay.memory.agents.checkpoints import COLUMNS, Checkpoint, CheckpointTable, Write
from memrelay.memory.agents.messages import calls_in, is_of_user

ALL_WRITES = (
    f"SELECT {', '.join(Write._fields)} FROM checkpoint_writes WHERE agent = ? AND thread = ?"
)
DELETE_WRITE = (
    "DELETE FROM checkpoint_writes WHERE agent = ? AND thread = ? AND ns = ? AND id = ? "
    "AND task = ? AND idx = ?"
)
ALL_VALUES = "SELECT n, value FROM checkpoint_values WHERE agent = ? AND thread = ?"
ALL_CHECKPOINTS = f"SELECT {COLUMNS} FROM checkpoints WHERE agent = ? AND thread = ?"


class Wanted(Protocol):
    """What is to be erased."""

    def in_text(self, text: str) -> bool:
        """Return whether a text has it."""

    def in_data(self, data: bytes) -> bool:
        """Return whether a serialized value has it."""


class WantedText:
    """A text, also as JSON escapes it."""

    def __init__(self, text: str) -> None:
        self._text, self._forms = text, {text.encode(), orjson.dumps(text)[1:-1]}

    def in_text(self, text: str) -> bool:
        """Return whether a text contains it."""
        return self._text in text or self.in_data(text.encode())

    def in_data(self, data: bytes) -> bool:
        """Return whether a serialized value contains it."""
        return any(form in data for form in self._forms)


def erase_text(connection: apsw.Connection, table: CheckpointTable, text: str) -> None:
    """Delete every value, write, checkpoint and thread that contains a text.

    Checkpoints with deleted values stay without them.
    """
    erase_wanted(connection, table, WantedText(text))


def erase_wanted(connection: apsw.Connection, table: CheckpointTable, wanted: Wanted) -> None:
    """Delete every value, write, checkpoint and thread that has what is wanted.

    Checkpoints with deleted values stay without them.
    """
    for agent in table.agents():
        for thread in table.threads(agent):
            if wanted.in_text(agent) or wanted.in_text(thread):
                table.delete_thread(agent, thread)
            else:
                _erase_in_thread(connection, table, (agent, thread), wanted)


def _erase_in_thread(
    connection: apsw.Connection, table: CheckpointTable, place: tuple[str, str], wanted: Wanted
) -> None:
    for write in [Write(*row) for row in connection.execute(ALL_WRITES, place)]:
        if _contains(wanted, (*write[2:5], *write[6:9]), write.value):
            connection.execute(DELETE_WRITE, write[:6])
    values = dict(connection.execute(ALL_VALUES, place))
    numbers = {number for number, value in values.items() if _contains(wanted, (), value)}
    numbers |= _same_calls(values, numbers)
    gone, changed = [], []
    for one in [Checkpoint(*row) for row in connection.execute(ALL_CHECKPOINTS, place)]:
        if _contains(wanted, (one.ns, one.id, one.metadata, one.channels, one.run), one.checkpoint):
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


def _contains(wanted: Wanted, texts: Iterable[str], value: bytes) -> bool:
    """Return whether one of the texts, or the stored value, has what is wanted."""
    try:
        data = unpack(value)
    except ValueError:
        data = value
    return wanted.in_data(data) or any(map(wanted.in_text, texts))


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
