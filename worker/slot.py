"""Where the reader leaves a pipeline's next entries for its group: one batch under way, one
waiting, no more."""

import asyncio
from collections.abc import Callable

from pipelines.plan import Plan
from worker.inputs import Entry, as_entry


class Slot:
    """Holds the entries of one pipeline that were read and not yet taken."""

    def __init__(self, plan: Plan, wanted: asyncio.Event) -> None:
        """`wanted` tells the group that something waits."""
        self.plan = plan
        self._wanted = wanted
        self._entries: list[Entry] = []
        self._open = False  # not before the group has recovered
        self.on_free: Callable[[], None] = lambda: None  # the reader's: read this pipeline again

    @property
    def ready(self) -> bool:
        """Whether the pipeline is to be read."""
        return self._open and not self._entries

    def open(self) -> None:
        """The group has recovered: what comes from now on is new."""
        self._open = True
        self.on_free()

    def fill(self, entries: list[tuple[bytes, list[bytes]]]) -> None:
        """Entries as the server sends them: id, and fields and values in turn."""
        self._entries = as_entries(self.plan, entries)
        self._wanted.set()

    def take(self) -> list[Entry]:
        """What waits."""
        if not self._entries:
            return []
        entries, self._entries = self._entries, []
        self.on_free()
        return entries


def as_entries(plan: Plan, entries: list[tuple[bytes, list[bytes]]]) -> list[Entry]:
    """Raw entries of a stream."""
    return [
        as_entry(ident.decode(), plan, fields)
        if b"again" in fields
        else Entry(ident.decode(), plan, fields)
        for ident, fields in entries
    ]
