"""Steps that read from sources."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import format_time, parse_ms
from memrelay.memory.errors import RecordNotFound, Refused, SearchTooLong
from memrelay.memory.models.recipes.documents import (
    MAX_COLLECTION_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_TOP,
    Mode,
    SearchDocuments,
    search,
)
from memrelay.memory.models.recipes.execution.items import compact, item_text
from memrelay.memory.models.recipes.graph.view_query import Query
from memrelay.memory.models.recipes.graph.views import find_view, limited, read_query, read_rows
from memrelay.memory.models.recipes.instances import NOUNS, InstanceName, find_or_none, read_id
from memrelay.memory.models.recipes.kv import KvName, read_value
from memrelay.memory.models.recipes.queries import from_json
from memrelay.memory.models.recipes.step import Item, Items, StepCall, StepFailed, step
from memrelay.memory.models.recipes.table import Event, RecipeTables, View
from memrelay.memory.records.filters import Filter

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"-?(\d{1,12})(ms|[smhdw])", re.ASCII)
ViewId = Annotated[str, Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class KvGet:
    instance: InstanceName
    """The id or the name of the key-value store."""
    namespace: KvName
    """The namespace."""
    keys: Annotated[tuple[KvName, ...], Field(max_length=1000)]
    """The keys, in the order of the items."""


@step("kv_get", "retrieval")
def kv_get(params: KvGet, call: StepCall) -> Items:
    """Read the values of keys, in the order of the keys. A missing key gives a warning."""
    id_ = require_instance(call, "kv", params.instance)
    pairs = call.tx.table(RecipeTables).kv.get(id_, params.namespace, params.keys)
    items = []
    for key in params.keys:
        if (pair := pairs.get(key)) is None:
            namespace = f"{params.instance}/{params.namespace}"
            call.warn("missing_key", f'{namespace} has no key "{key}"')
            continue
        value = read_value(id_, pair)
        item = {"id": f"{params.namespace}/{key}", "key": key, "value": value}
        items.append({**item, "text": compact(value)})
    return items


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
    for column, value in (("stream", params.stream_id), ("type", params.event_type)):
        if value:
            clauses.append(f"{column} = ?")
            values.append(value)
    if params.since != "":
        clauses.append("at >= ?")
        values.append(since_ms(params.since, call.context.now_ms))
    where = " AND ".join(clauses) or "1", tuple(values)
    try:
        with call.tx.time_limit.bounded():
            events = list(call.tx.table(RecipeTables).events.select(id_, where, (params.limit, 0)))
    except SearchTooLong as error:
        raise StepFailed(
            "timeout", "the search of the log takes too long; name a stream, or a later `since`"
        ) from error
    return [_item(event) for event in events]


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


@dataclass(frozen=True, slots=True)
class VectorSearch:
    collection: Annotated[
        str, StringConstraints(min_length=1, max_length=MAX_COLLECTION_CHARACTERS)
    ]
    """A collection of documents, `memory:` with the id or name of a named memory, or `store:` with
    the memory_id of a store of the pipeline."""
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP)] = 5
    """The maximum number of items."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """The lowest score of an item. The default is 0.5; without vectors it is 0."""
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)] | None = None
    """The text to find. By default the query of the run."""
    mode: Mode = "hybrid"
    """`hybrid`: any words, and meaning. `semantic`: meaning. `fts`: all words."""
    filter: Filter | None = None
    """Only records that pass this filter (docs/filters.md). `data` of a document has `uri`, `title`
    and `metadata`."""


@step("vector_search", "retrieval")
def vector_search(params: VectorSearch, call: StepCall) -> Items:
    """Find documents, entries of a named memory or records of a store, best first.

    Raises StepFailed: `unknown_collection`, `bad_param` for a query with too many words or a mode
    without vectors, or `timeout`.
    """
    query = SearchDocuments(
        params.collection,
        call.query if params.query is None else params.query,
        params.top_k,
        params.min_score,
        params.mode,
        params.filter,
    )
    try:
        hits = search(call.tx, query, call.context)
    except RecordNotFound as error:
        raise StepFailed("unknown_collection", str(error)) from error
    except SearchTooLong as error:
        raise StepFailed("timeout", str(error)) from error
    except Refused as error:
        raise StepFailed("bad_param", str(error)) from error
    for warning in hits.warnings:
        call.warn(warning.code, warning.message)
    return [*hits.items]


@dataclass(frozen=True, slots=True)
class ViewRead:
    view_id: ViewId
    """The id of the view."""


@step("graph_view_read", "retrieval")
def read_view(params: ViewRead, call: StepCall) -> Items:
    """Read the rows of a view of a graph."""
    view, query = find_query(call.tx, params.view_id)
    items: Items = []
    with limited(call.tx, f"the view {view.id!r}"):
        for node, values in read_rows(call.tx, view, query):
            ids = {"id": node, "instance": view.instance}
            items.append({"text": item_text(values), **values, **ids})
    return items


def find_query(tx: Transaction, view_id: str) -> tuple[View, Query]:
    """Return a view and its query. Raises StepFailed."""
    try:
        view = find_view(tx, view_id)
        return view, read_query(tx, view)
    except RecordNotFound as error:
        raise StepFailed("unknown_view", str(error)) from error


def require_instance(call: StepCall, sort: str, name: str) -> str:
    """Return the id of an instance. Raises StepFailed."""
    stored = find_or_none(call.tx, sort, name)
    if stored is None:
        raise StepFailed("unknown_instance", f'there is no {NOUNS[sort]} "{name}"')
    return read_id(stored)
