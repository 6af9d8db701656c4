"""The lines of evidence in an export."""

from typing import Self

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.records.export_fields import ExportedRow, Guid


class ExportedEvidence(ExportedRow, frozen=True):
    """A turn from which a record was made, both by their guids."""

    record: Guid
    turn: Guid

    def admit(self, records: RecordTable) -> Self:
        """Return the row itself: it has no text."""
        return self
