"""Messages that stay in the input while too many inputs wait for a deferred call or a retry.

Calls of operations go on meanwhile, because a deferred call that runs may await one.
"""

from collections.abc import Mapping

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.worker.intake.reader import Slot, read_unfinished
from memrelay.worker.run.inputs import Entry

# Entries that are read again together.
ENTRIES_TOGETHER = 256


class Overflow:
    """Knows which entries of a group were read and did not run. They are not kept in memory."""

    def __init__(self) -> None:
        # By pipeline: the ID of the last such entry.
        self._last: dict[str, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def take_calls(self, entries: list[Entry]) -> list[Entry]:
        """Return the calls. The messages stay in the input, in their order."""
        for entry in entries:
            if not entry.field(b"op"):
                self._last[entry.plan.uid] = (entry.replay_entry or entry.id).encode()
        return [entry for entry in entries if entry.field(b"op")]

    async def read_again(
        self, control: ReconnectingConnection, slots: Mapping[str, Slot]
    ) -> dict[str, list[Entry]]:
        """Return the next messages of each pipeline that has any.

        No entry may be under way: finished ones are deleted from the input. Raises BusUnavailable.
        """
        found = {}
        for uid, last in list(self._last.items()):
            entries = await read_unfinished(control, slots[uid], last, ENTRIES_TOGETHER)
            if entries:
                found[uid] = entries
            else:
                del self._last[uid]
        return found
