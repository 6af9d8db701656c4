"""Dead letters as lists show them, with the beginning of their messages."""

from collections.abc import Sequence
from typing import NamedTuple

from memrelay.memory.control.dead_letters import DeadLetters, Listed, first_line
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.trace.messages import parse_entry_id, read_message

# Longer messages of a list are not read.
MAX_BYTES = 16 << 10
MAX_CHARACTERS = 300


class DeadLetterRow(NamedTuple):
    """A dead letter in a list.

    `text` begins its message and `hidden` is the number of further characters. `is_unread` is
    whether the message is too long for a list. `entry` is the message to which it belongs.
    """

    uid: str
    ident: str
    entry: str
    swarm: str
    agent: str
    reason: str
    attempts: int
    failed_at: str
    size: int
    sender: str
    text: str
    hidden: int
    is_unread: bool

    @property
    def arrived_at_ms(self) -> int:
        """Return when the message arrived, Unix ms."""
        return int(self.entry.partition("-")[0] or 0)


async def read_rows(dead_letters: DeadLetters, listed: Sequence[Listed]) -> list[DeadLetterRow]:
    """Return the rows of dead letters in the same order. Raises StoreBusy."""
    data = await dead_letters.read_data([one.place for one in listed], MAX_BYTES) if listed else {}
    return [_to_row(one, data.get(one.place)) for one in listed]


def _to_row(dead_letter: Listed, data: bytes | None) -> DeadLetterRow:
    sender, text = read_message(data or b"")
    return DeadLetterRow(
        dead_letter.pipeline,
        dead_letter.id,
        parse_entry_id(dead_letter.id),
        dead_letter.swarm,
        dead_letter.agent,
        first_line(dead_letter.error),
        dead_letter.attempts,
        format_time(dead_letter.failed_at),
        dead_letter.size,
        sender,
        text[:MAX_CHARACTERS],
        max(0, len(text) - MAX_CHARACTERS),
        data is None,
    )
