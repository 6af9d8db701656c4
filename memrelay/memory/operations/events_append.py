"""events.append: appends events to an event log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.feed import ChangeType
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.faults import FaultList
from memrelay.memory.recipes.sources.event_table import Event
from memrelay.memory.recipes.sources.events import EventName, EventView, view_event
from memrelay.memory.recipes.sources.instances import InstanceName, ensure_id
from memrelay.memory.recipes.sources.json_value import to_json
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import LAST_MS, parse_ms

MOST_EVENTS = 1000


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append."""

    stream_id: EventName
    """The stream. Each stream counts its events from 1."""
    event_type: EventName
    """The type."""
    payload: Any
    """The data of the event: any JSON, at most 256 KiB."""
    metadata: dict[str, Any] | None = None
    """Further data; by default an empty object."""
    timestamp: str | int | None = None
    """When it happened: RFC 3339 or Unix ms; by default now."""


@dataclass(frozen=True, slots=True)
class AppendEvents:
    """Events to append."""

    instance: InstanceName
    """The id or the name of the event log."""
    events: Annotated[tuple[NewEvent, ...], Field(min_length=1, max_length=MOST_EVENTS)]
    """The events, in their order."""
    auto_create: bool = False
    """Whether a missing log is created."""


@dataclass(frozen=True, slots=True)
class EventsAppended:
    """The events that were appended."""

    instance_id: str
    events: tuple[EventView, ...]


@operation("events.append", access="append", mutates=True, home="recipes")
def append(tx: Transaction, given: AppendEvents, context: Context) -> EventsAppended:
    """Append events, all or none. Events never change.

    Raises RecordNotFound: when the log does not exist and is not created.
    Raises InvalidInput: when a timestamp is invalid.
    Raises BadValue: when JSON cannot express a payload, or it is nested too deeply.
    Raises ValueTooLarge: when a payload or metadata is too large.
    """
    times = _times(given.events, context.now_ms)
    texts = [(to_json(new.payload), to_json(new.metadata or {})) for new in given.events]
    id_ = ensure_id(tx, "events", given.instance, context, create=given.auto_create)
    events, last = list[Event](), dict[str, int]()
    for new, (payload, metadata), at in zip(given.events, texts, times, strict=True):
        stream = new.stream_id
        if stream not in last:
            last[stream] = tx.recipes.events.last_sequence(id_, stream)
        last[stream] += 1
        events.append(
            Event(context.new_guid(), stream, last[stream], new.event_type, payload, metadata, at)
        )
    tx.recipes.events.append(id_, events)
    change: ChangeType = "event.appended" if len(events) == 1 else "events.appended"
    tx.feed.add(change, id_, {"ids": [event.id for event in events]})
    return EventsAppended(id_, tuple(view_event(id_, event) for event in events))


def _times(events: Sequence[NewEvent], now_ms: int) -> list[int]:
    """Return the times of the events, Unix ms. Raises InvalidInput with every error."""
    times, faults = list[int](), FaultList()
    for at, event in enumerate(events):
        moment = now_ms if event.timestamp is None else parse_ms(str(event.timestamp))
        if moment is None or not 0 <= moment <= LAST_MS:
            rule = "timestamp is a time like 2026-11-22T05:00:00Z or Unix ms, from 1970 to 9999"
            faults.add(("events", at, "timestamp"), "bad_type", rule)
        else:
            times.append(moment)
    faults.raise_any("the request")
    return times
