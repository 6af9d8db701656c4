"""The step `log_search`."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from memrelay.memory.engine.timestamps import format_time, parse_ms
from memrelay.memory.errors import SearchTooLong
from memrelay.memory.models.recipes.execution.items import item_text
from memrelay.memory.models.recipes.instances import InstanceName
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.models.recipes.sources.event_table import Event
from memrelay.memory.models.recipes.sources.json_value import from_json
from memrelay.memory.models.recipes.sources.step_instance import require_instance
from memrelay.memory.models.recipes.step import Item, Items, StepCall, StepFailed, step

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"-?(\d{1,12})(ms|[smhdw])", re.ASCII)


def since_ms(since: str | int, now_ms: int) -> int | None:
    """Return the time that `since` means, Unix ms. None if it is invalid."""
    text = str(since)
    if (span := _SPAN.fullmatch(text)) is not None:
        return max(0, now_ms - int(span[1]) * UNITS_MS[span[2]])
    return parse_ms(text)


def _check_since(since: str | int) -> str | int:
    if since != "" and since_ms(since, 0) is None:
        raise ValueError(
            "is a time like 2026-11-01T10:00:00Z, Unix ms, or a span before now like 24h or -7d"
        )
    return since


@dataclass(frozen=True, slots=True)
class LogSearch:
    """Parameters of `log_search`."""

    instance: InstanceName
    """The id or the name of the event log."""
    event_type: str = ""
    """Only events of this type."""
    stream_id: str = ""
    """Only events of this stream."""
    since: Annotated[str | int, AfterValidator(_check_since)] = ""
    """Only events from this time on: RFC 3339, Unix ms, or a span before now like 24h or -7d."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 20
    """The maximum number of events."""


@step("log_search", "retrieval")
def log_search(params: LogSearch, call: StepCall) -> Items:
    """Read the events of a log, the newest first."""
    id_ = require_instance(call, "events", params.instance)
    clauses, values = list[str](), list[Any]()
    for column, wanted in (("stream", params.stream_id), ("type", params.event_type)):
        if wanted:
            clauses.append(f"{column} = ?")
            values.append(wanted)
    if params.since != "":
        clauses.append("at >= ?")
        values.append(since_ms(params.since, call.context.now_ms))
    where = " AND ".join(clauses) or "1", tuple(values)
    try:
        with call.tx.time_limit.bounded():
            found = list(call.tx.table(RecipeTables).events.select(id_, where, (params.limit, 0)))
    except SearchTooLong as error:
        raise StepFailed(
            "timeout", "the search of the log takes too long; name a stream, or a later `since`"
        ) from error
    return [_item(event) for event in found]


def _item(event: Event) -> Item:
    payload = from_json(event.payload, f"event {event.id}")
    return {
        "id": event.id,
        "timestamp": format_time(event.at),
        "streamId": event.stream,
        "eventType": event.type,
        "sequence": event.sequence,
        "metadata": from_json(event.metadata, f"event {event.id}"),
        "payload": payload,
        "text": item_text(payload),
    }
