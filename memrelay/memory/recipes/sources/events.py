"""Events as operations return them, and their fields in queries."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.recipes.sources.event_table import Event
from memrelay.memory.recipes.sources.json_value import from_json
from memrelay.memory.recipes.sources.where import SqlField, json_field
from memrelay.memory.timestamps import Moment, format_time

# A stream or a type.
EventName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
COLUMNS = {
    "id": SqlField("id", "text"),
    "stream_id": SqlField("stream", "text"),
    "event_type": SqlField("type", "text"),
    "timestamp": SqlField("at", "time"),
    "sequence_number": SqlField("sequence", "number"),
    "payload": SqlField("payload", "json", "$"),
    "metadata": SqlField("metadata", "json", "$"),
}
ALIASES = {
    "streamId": "stream_id",
    "eventType": "event_type",
    "sequenceNumber": "sequence_number",
    "sequence": "sequence_number",
}
# For messages about unknown fields.
KNOWN = (*COLUMNS, "payload.KEY", "metadata.KEY")


@dataclass(frozen=True, slots=True)
class EventView:
    """An event."""

    id: str
    instance_id: str
    stream_id: str
    event_type: str
    payload: Any
    metadata: Any
    timestamp: Moment
    """When it happened."""
    sequence_number: int
    """Its position in the stream, from 1."""


def view_event(instance: str, event: Event) -> EventView:
    """Return the view of an event. Raises RecordDamaged."""
    place = f"event {event.id}"
    return EventView(
        event.id,
        instance,
        event.stream,
        event.type,
        from_json(event.payload, place),
        from_json(event.metadata, place),
        format_time(event.at),
        event.sequence,
    )


def event_object(instance: str, event: Event) -> dict[str, Any]:
    """Return an event as an object. Raises RecordDamaged."""
    return asdict(view_event(instance, event))


def find_field(name: str) -> SqlField | None:
    """Return the field of events with that name, such as `payload.service`, None for none."""
    if (column := COLUMNS.get(ALIASES.get(name, name))) is not None:
        return column
    column_name, _, dotted = name.partition(".")
    return json_field(column_name, dotted) if column_name in ("payload", "metadata") else None
