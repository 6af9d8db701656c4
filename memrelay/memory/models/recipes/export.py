"""Lines of an export about what recipes read: pairs, events, and the edges and views of graphs."""

from collections.abc import Callable
from typing import Self

import orjson
from msgspec.structs import replace

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.records.admission import admit_json, admit_names
from memrelay.memory.records.export_fields import Count, ExportedRow, Id, Time


class ExportedPair(ExportedRow, frozen=True):
    """A pair of a key-value store. `value` is JSON."""

    instance: Id
    namespace: str
    key: str
    value: str
    updated_at: Time

    def normalize(self) -> Self:
        """Write the value as a store writes JSON."""
        return replace(self, value=_as_stored(self.value))

    def admit(self, records: RecordTable) -> Self:
        """Return the pair as `kv.set` would write it. Raises PolicyStop."""
        admit_names(records, "kv", (self.instance, self.namespace, self.key))
        return replace(self, value=admit_json(records, "kv", self.value))


class ExportedEvent(ExportedRow, frozen=True):
    """An event of a log. `payload` and `metadata` are JSON."""

    id: Id
    instance: Id
    stream: str
    sequence: Count
    type: str
    payload: str
    metadata: str
    at: Time

    def normalize(self) -> Self:
        """Write the payload and the metadata as a store writes JSON."""
        return replace(self, payload=_as_stored(self.payload), metadata=_as_stored(self.metadata))

    def admit(self, records: RecordTable) -> Self:
        """Return the event as `events.append` would write it. Raises PolicyStop."""
        admit_names(records, "event", (self.instance, self.id, self.stream, self.type))
        payload = admit_json(records, "event", self.payload)
        return replace(self, payload=payload, metadata=admit_json(records, "event", self.metadata))


class ExportedEdge(ExportedRow, frozen=True):
    id: str
    instance: Id
    kind: str
    from_node: str
    to_node: str
    created_at: Time

    def complete(self, find_existing: Callable[[], Self | None], now_ms: int) -> Self:
        """Return the edge with the time of the existing one, or of the import."""
        if self.created_at:
            return self
        existing = find_existing()
        return replace(self, created_at=now_ms if existing is None else existing.created_at)


class ExportedView(ExportedRow, frozen=True):
    id: str
    template: str
    instance: Id
    created_at: Time


def _as_stored(text: str) -> str:
    return orjson.dumps(orjson.loads(text)).decode()
