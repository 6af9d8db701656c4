"""Lines of an export about the counters of records and the checkpoints of threads."""

from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.models.agent_memory.checkpoint_texts import KIND, admit_stored
from memrelay.memory.records.admission import admit_names
from memrelay.memory.records.export_fields import Count, ExportedRow, Id, Time


class ExportedTally(ExportedRow, frozen=True):
    """The counters of a record."""

    guid: Id
    uses: Count
    used_at: Time | None
    seen_at: Time | None
    good: Count
    bad: Count
    timed: Count
    total_ms: Count


class ExportedCheckpoint(ExportedRow, frozen=True):
    """A checkpoint of a thread. Bytes are in base64."""

    agent: str
    thread: Id
    ns: str
    id: str
    parent: str
    type: str
    checkpoint: bytes
    metadata: str
    run: str
    created_at: Time
    channels: str
    numbers: Annotated[str, Meta(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")]

    def normalize(self) -> Self:
        """Check the metadata and the channels."""
        _decode_metadata(self.metadata)
        _decode_channels(self.channels)
        return self


class ExportedCheckpointValue(ExportedRow, frozen=True):
    """A part of the checkpoints of a thread."""

    agent: str
    thread: Id
    n: Count
    value: bytes

    def admit(self, records: RecordTable) -> Self:
        """Return the part as `checkpoints.put` would write it. Raises PolicyStop."""
        admit_names(records, KIND, (self.agent, self.thread))
        return replace(self, value=admit_stored(records, self.value))


class ExportedCheckpointWrite(ExportedRow, frozen=True):
    """A write that follows a checkpoint."""

    agent: str
    thread: Id
    ns: str
    id: str
    task: str
    idx: int
    path: str
    channel: str
    type: str
    value: bytes

    def admit(self, records: RecordTable) -> Self:
        """Return the write as `checkpoints.write` would write it. Raises PolicyStop."""
        admit_names(records, KIND, (self.agent, self.thread))
        return replace(self, value=admit_stored(records, self.value))


_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode
_decode_channels = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode
