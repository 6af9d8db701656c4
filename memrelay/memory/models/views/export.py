"""The lines of views in an export."""

from typing import Annotated, Self

import orjson
from msgspec import Meta
from msgspec.structs import replace

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.records.export_fields import ExportedRow, Time
from memrelay.memory.view_rules import check_view


class ExportedView(ExportedRow, frozen=True):
    """A view that no bundle declares. `view` is JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    view: str
    changed_at: Time

    def normalize(self) -> Self:
        """Check the view, and write it as a store does."""
        view = orjson.loads(self.view)
        if not isinstance(view, dict):
            raise ValueError("a view is a JSON object")
        if check_view(view)["name"] != self.name:
            raise ValueError(f"the view has another name than {self.name!r}")
        return replace(self, view=orjson.dumps(view).decode())

    def admit(self, records: RecordTable) -> Self:
        """Return the row itself: a view is no memory."""
        return self
