"""From changes to deliveries, and from deliveries to requests. It runs in the database thread.

Rows of the change feed are in the transaction of their change. Here they become deliveries, in a
transaction of the store `endpoints` that also moves its cursor. After a crash between the two, the
same changes become the same deliveries, with the same ids.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from memrelay.memory.endpoint_rules import matches
from memrelay.memory.engine.feed import CREATED, ERASED, SKIPPED, UPDATED, Change
from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.endpoints.causes import NO_CAUSE, Cause, ChangeCauses
from memrelay.memory.models.endpoints.events import find_events, is_about_record, show_record
from memrelay.memory.models.endpoints.schedule import Answer, after_try, is_open, next_probe_ms
from memrelay.memory.models.endpoints.service_events import add_events, make_disabled_event
from memrelay.memory.models.endpoints.table import (
    NO_LONGER_DECLARED,
    WAITING,
    Delivery,
    Endpoint,
    EndpointTable,
    Try,
)

# Changes of one store that become deliveries in one transaction.
CHANGES_TOGETHER = 1000
# Waiting deliveries of an endpoint. Beyond it, the oldest fail.
MOST_WAITING = 100_000
# Requests under way to one endpoint, and those that are taken to follow them.
MOST_AT_ONCE, MOST_TAKEN = 8, 64
# Bytes of the data of an event. Longer data is left out.
MAX_DATA_BYTES = 256 << 10
FIRST_AT = "SELECT coalesce(min(n), 0) FROM changes WHERE at >= ?"


class Request(NamedTuple):
    """A delivery to send, with the body that all formats are made of, and what led to it."""

    delivery: Delivery
    endpoint: Endpoint
    event: dict[str, Any]
    cause: Cause = NO_CAUSE


class Due(NamedTuple):
    """The requests to make now, and when to look again (Unix ms), None for after a change."""

    requests: list[Request]
    next_ms: int | None


class Collected(NamedTuple):
    """Whether there are more changes, and whether answers with erased texts were removed, so that
    the file must be rewritten.
    """

    more: bool
    has_removed: bool


def collect(stores: OpenStores, name: str, sources: Sequence[str], now_ms: int) -> Collected:
    """Make deliveries of new changes.

    `name` is the store of the endpoints, `sources` are the stores of the pipeline. Raises
    StoreBusy, StoreBroken and StoreFenced.
    """
    table = stores.get(name).table(EndpointTable)
    endpoints = [one for one in table.all() if one.disabled != NO_LONGER_DECLARED]
    removed, more, erased = 0, False, list[str]()
    rows, cursors = list[tuple[Any, ...]](), dict[str, int]()
    for source in sources:
        if source == name or not stores.exists(source):
            continue
        store, known = stores.get(source), table.cursor(source)
        cursor = _find_start(store, known, endpoints)
        changes = store.feed.after(cursor, CHANGES_TOGETHER)
        last = changes[-1].n if changes else cursor
        if last != known:
            cursors[source] = last
        more |= len(changes) == CHANGES_TOGETHER
        erased += [source] if any(one.type == ERASED for one in changes) else []
        rows += make_rows(store, changes, endpoints)
    if cursors:
        with stores.get(name).transaction():
            table.add(rows)
            for source, last in cursors.items():
                table.set_cursor(source, last)
            for endpoint in endpoints if rows else ():
                table.fail_oldest(endpoint.id, MOST_WAITING, now_ms)
            table.delete_ended(now_ms)
            removed = sum(table.forget_answers(source, now_ms) for source in erased)
    return Collected(more, removed > 0)


def _find_start(store: Store, known: int | None, endpoints: Sequence[Endpoint]) -> int:
    """Return the number of the last change that is no delivery's: all before any endpoint."""
    last = store.feed.last
    if known is not None:
        return min(known, last)  # a restored backup has fewer
    if not endpoints:
        return last
    first: int = store.connection.execute(FIRST_AT, (min(one.created_at for one in endpoints),)).get
    return first - 1 if first else last


def make_rows(
    store: Store, changes: Sequence[Change], endpoints: Sequence[Endpoint]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of EndpointTable.add for the changes that endpoints get."""
    lineage = store.commits.mark.partition(":")[0]
    events = find_events(store, changes) if endpoints else ()
    for change, event in zip(changes, events, strict=False):
        for endpoint in endpoints:
            if (
                endpoint.created_at <= change.at
                and any(matches(glob, event.type) for glob in endpoint.spec.events)
                and _passes(store, change, endpoint.spec.filter)
            ):
                # Stores of a pipeline have equal lineages and numbers.
                cause = f"{endpoint.id}/{store.memory_id}/{lineage}/{change.n}"
                id_ = f"msg_{hashlib.sha256(cause.encode()).hexdigest()[:32]}"
                about = (store.memory_id, change.n, event.type, change.subject, event.data)
                yield (id_, endpoint.id, *about, change.at, change.at)


def _passes(store: Store, change: Change, given: Any) -> bool:
    """Return whether the record of a change passes a filter. What is gone passes none."""
    if not given:
        return True
    if change.type not in (CREATED, UPDATED, SKIPPED):
        return False
    conditions = Conditions({"guid": change.subject}, given=compiled(given))
    return store.records.count(conditions) > 0


def take_due(
    stores: OpenStores,
    name: str,
    now_ms: int,
    under_way: Mapping[str, str],
    allowed: Callable[[Endpoint], int],
) -> Due:
    """Return the requests to make now.

    `under_way` has the endpoint of each delivery that is being sent, by its id. `allowed` returns
    how many more an endpoint's rate allows now.
    """
    table = stores.get(name).table(EndpointTable)
    requests, times = list[Request](), list[int]()
    for endpoint in table.all():
        if endpoint.disabled:
            continue
        busy = [id_ for id_, of in under_way.items() if of == endpoint.id]
        room = min(allowed(endpoint), _count_room(endpoint, len(busy), now_ms))
        found = [
            one
            for one in _select_due(table, endpoint, now_ms, room + len(busy))
            if one.id not in busy
        ][:room]
        requests += [
            Request(one, endpoint, _make_event(stores, one), _find_cause(stores, one))
            for one in found
        ]
        if not busy and not found and (due := table.next_due(endpoint.id)) is not None:
            times.append(max(due, next_probe_ms(endpoint) if is_open(endpoint) else due))
    return Due(requests, min(times, default=None))


def _count_room(endpoint: Endpoint, busy: int, now_ms: int) -> int:
    if is_open(endpoint):
        return 1 - busy if now_ms >= next_probe_ms(endpoint) else 0
    return (1 if endpoint.spec.ordered else MOST_TAKEN) - busy


def _select_due(
    table: EndpointTable, endpoint: Endpoint, now_ms: int, most: int
) -> Iterable[Delivery]:
    if most <= 0:
        return ()
    if endpoint.spec.ordered:
        return [one for one in table.oldest(endpoint.id, 1) if one.due <= now_ms]
    return table.due(endpoint.id, now_ms, most)


def _find_cause(stores: OpenStores, delivery: Delivery) -> Cause:
    if not delivery.store or not stores.exists(delivery.store):
        return NO_CAUSE
    return stores.get(delivery.store).table(ChangeCauses).find(delivery.change)


def _make_event(stores: OpenStores, delivery: Delivery) -> dict[str, Any]:
    """Return {"type", "timestamp", "data"}."""
    data = _read_data(stores, delivery)
    if len(orjson.dumps(data)) > MAX_DATA_BYTES:
        data = {name: data[name] for name in ("id", "guid", "store") if name in data}
        data["truncated"] = True
    return {"type": delivery.type, "timestamp": format_time(delivery.at), "data": data}


def _read_data(stores: OpenStores, delivery: Delivery) -> dict[str, Any]:
    further = {} if delivery.data is None else orjson.loads(delivery.data)
    if not delivery.store:
        return dict(further)
    if not is_about_record(delivery.type):
        return {"id": delivery.subject, "store": delivery.store, **further}
    if not stores.exists(delivery.store):
        return {"guid": delivery.subject, "store": delivery.store, **further}
    return further | show_record(stores.get(delivery.store), delivery.subject, delivery.type)


def note_answers(
    stores: OpenStores,
    name: str,
    answers: Sequence[tuple[Delivery, Answer]],
    now_ms: int,
    random: Callable[[], float],
) -> list[Endpoint]:
    """Write the answers to tries in one transaction. Return the endpoints that were switched off.

    An endpoint or delivery that was deleted meanwhile is left out.
    """
    off = []
    with stores.get(name).transaction() as tx:
        table = tx.table(EndpointTable)
        for sent, answer in answers:
            endpoint, delivery = table.find(sent.endpoint), table.find_delivery(sent.id)
            if endpoint is None or delivery is None or delivery.state != WAITING:
                continue
            after, delivery = after_try(endpoint, delivery, answer, now_ms, random)
            table.put(after)
            quotes = table.may_quote_erased(delivery.store, now_ms - answer.took_ms)
            text = "" if quotes else answer.text
            one = Try(delivery.tries, now_ms, answer.took_ms, answer.status, text)
            table.note_try(delivery, one)
            if after.disabled and not endpoint.disabled:
                off.append(after)
        if off:
            add_events(table, [make_disabled_event(one, now_ms) for one in off])
    return off
