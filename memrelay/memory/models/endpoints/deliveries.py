"""Deliveries to endpoints: list and read them with their tries, and send them again."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time, parse_ms
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.endpoints.endpoints import EndpointId
from memrelay.memory.models.endpoints.endpoints import find as find_endpoint
from memrelay.memory.models.endpoints.table import STATES, Delivery, EndpointTable, Recovery, Try
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit

# Deliveries among which a subject, which has no index, is looked for.
MOST_SCANNED = 100_000
# Deliveries that one call sends again.
MOST_TOGETHER = 10_000
State = Literal["", "waiting", "delivered", "failed"]
DeliveryId = Annotated[str, Field(min_length=1, max_length=64)]
Time = Annotated[str, Field(max_length=40)]


@dataclass(frozen=True, slots=True)
class TryView:
    """A try to deliver an event."""

    number: int
    at: Moment
    took_ms: int
    status: int
    """The HTTP status; 0 if there was no answer."""
    answer: str
    """The beginning of the answer, or why there was none."""


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """The delivery of one event to one endpoint."""

    id: str
    """The `webhook-id`, the same for all tries."""
    endpoint: str
    """The id of the endpoint."""
    type: str
    """The type of the event."""
    store: str
    """The store of the change; empty for a test."""
    subject: str
    """The id of what changed."""
    data: dict[str, Any] | None
    at: Moment
    """When the change was made."""
    state: str
    """`waiting`, `delivered` or `failed`."""
    tries: int
    """Tries since the delivery was made, or sent again."""
    due: Moment | None
    """When the next try is due; null if there is none."""
    ended_at: Moment | None


@dataclass(frozen=True, slots=True)
class DeliveryWithTries:
    """A delivery with all its tries."""

    delivery: DeliveryView
    tries: tuple[TryView, ...]


@dataclass(frozen=True, slots=True)
class ListDeliveries:
    """The deliveries to list."""

    endpoint: Annotated[str, Field(max_length=64)] = ""
    """Only those of this endpoint."""
    state: State = ""
    """Only those that wait, were delivered, or failed."""
    type: Annotated[str, Field(max_length=64)] = ""
    """Only events of this type."""
    subject: Annotated[str, Field(max_length=512)] = ""
    """Only events about this record or other item, among the latest 100,000 deliveries."""
    before: Annotated[int, Field(ge=0, le=2**53)] = 0
    """The `next` of the previous page; 0 for the newest."""
    limit: Limit = 50
    """The maximum number of deliveries."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """The deliveries, the newest first."""

    items: tuple[DeliveryView, ...]
    next: int
    """The `before` of the next page; 0 if there is none."""


@operation("deliveries.list", access="read", mutates=False, store="endpoints")
def list_deliveries(tx: Transaction, request: ListDeliveries, context: Context) -> DeliveryPage:
    """List deliveries, the newest first. Those that ended 30 days ago are deleted."""
    clauses, values = ["(?1 = 0 OR n < ?1)"], [request.before]
    given: list[Any] = [*values]
    for name in ("endpoint", "type"):
        if value := getattr(request, name):
            given.append(value)
            clauses.append(f"{name} = ?{len(given)}")
    if request.state:
        given.append(STATES.index(request.state))
        clauses.append(f"state = ?{len(given)}")
    if request.subject:
        given.append(request.subject)
        latest = f"n > (SELECT max(n) FROM deliveries) - {MOST_SCANNED}"
        clauses.append(f"+subject = ?{len(given)} AND {latest}")
    given.append(request.limit + 1)
    which = f"WHERE {' AND '.join(clauses)} ORDER BY n DESC LIMIT ?{len(given)}"
    found = list(tx.table(EndpointTable).select(which, given))
    page = found[: request.limit]
    following = page[-1].n if len(found) > len(page) else 0
    return DeliveryPage(tuple(map(_view, page)), following)


@dataclass(frozen=True, slots=True)
class DeliveryOf:
    """The delivery."""

    id: DeliveryId
    """The id of the delivery."""


@operation("deliveries.get", access="read", mutates=False, store="endpoints")
def get(tx: Transaction, request: DeliveryOf, context: Context) -> DeliveryWithTries:
    """Return a delivery with its tries.

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    found = _find(table, request.id)
    return DeliveryWithTries(_view(found), tuple(map(_view_try, table.tries(found.n))))


@operation("deliveries.redeliver", access="admin", mutates=True, store="endpoints")
def redeliver(tx: Transaction, request: DeliveryOf, context: Context) -> DeliveryView:
    """Send a delivery again, under its id.

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    table.wait_again(_find(table, request.id), context.now_ms)
    return _view(_find(table, request.id))


@dataclass(frozen=True, slots=True)
class RedeliverMany:
    """The deliveries to send again."""

    endpoint: EndpointId
    """The endpoint."""
    state: Literal["delivered", "failed"] = "failed"
    """Those that failed, or those that were delivered."""
    since: Time = ""
    """Only events from then on: a time like 2026-11-28T09:00:00Z."""
    until: Time = ""
    """Only events before then."""


@dataclass(frozen=True, slots=True)
class Redelivered:
    """How many deliveries are sent again."""

    count: int
    more: bool
    """Whether there are more; call again for them."""


@operation("deliveries.redeliver_many", access="admin", mutates=True, store="endpoints")
def redeliver_many(tx: Transaction, request: RedeliverMany, context: Context) -> Redelivered:
    """Send up to 10,000 deliveries again, under their ids, the oldest first.

    Raises RecordNotFound: when there is no such endpoint. Raises Refused: when a time is malformed.
    """
    table = tx.table(EndpointTable)
    find_endpoint(table, request.endpoint)
    since, until = _parse(request.since, 0), _parse(request.until, LAST_MS)
    which = "WHERE endpoint = ? AND state = ? AND at >= ? AND at < ? ORDER BY n LIMIT ?"
    state = STATES.index(request.state)
    values = (request.endpoint, state, since, until, MOST_TOGETHER + 1)
    found = list(table.select(which, values))
    for one in found[:MOST_TOGETHER]:
        table.wait_again(one, context.now_ms)
    return Redelivered(min(len(found), MOST_TOGETHER), len(found) > MOST_TOGETHER)


@dataclass(frozen=True, slots=True)
class RecoverEndpoint:
    """The deliveries that an endpoint gets after an outage."""

    id: EndpointId
    """The id of the endpoint."""
    since: Time = ""
    """Only events from then on: a time like 2026-11-28T09:00:00Z."""
    until: Time = ""
    """Only events before then."""
    missing: bool = False
    """Also the changes that never had a delivery, such as those from before the endpoint. The
    worker looks for them in the change feed, and delivers those that are still there."""


@operation("endpoints.recover", access="admin", mutates=True, store="endpoints")
def recover(tx: Transaction, request: RecoverEndpoint, context: Context) -> Redelivered:
    """Send up to 10,000 failed deliveries of a period again, under their ids, the oldest first.

    Raises RecordNotFound: when there is no such endpoint. Raises Refused: when a time is malformed.
    """
    period = _parse(request.since, 0), _parse(request.until, LAST_MS)
    failed = RedeliverMany(request.id, "failed", request.since, request.until)
    redelivered = redeliver_many(tx, failed, context)
    if request.missing:
        tx.table(EndpointTable).begin_recovery(Recovery(request.id, *period))
    return redelivered


def _find(table: EndpointTable, id_: str) -> Delivery:
    found = table.find_delivery(id_)
    if found is None:
        raise RecordNotFound(f"no delivery has the id {id_!r}; deliveries.list lists them")
    return found


def _parse(text: str, default: int) -> int:
    if not text:
        return default
    moment = parse_ms(text)
    if moment is None:
        raise Refused(f"{text!r} is no time; write one like 2026-11-28T09:00:00Z")
    return moment


def _view(one: Delivery) -> DeliveryView:
    is_waiting = one.ended_at is None
    return DeliveryView(
        one.id,
        one.endpoint,
        one.type,
        one.store,
        one.subject,
        None if one.data is None else orjson.loads(one.data),
        format_time(one.at),
        STATES[one.state],
        one.tries,
        format_time(one.due) if is_waiting else None,
        None if one.ended_at is None else format_time(one.ended_at),
    )


def _view_try(one: Try) -> TryView:
    return TryView(one.number, format_time(one.at), one.took_ms, one.status, one.answer)
