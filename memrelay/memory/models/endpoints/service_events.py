"""Events that are no changes of a store: dead letters, deploys, endpoints switched off.

Dead letters and versions are in the control plane. They become deliveries in a transaction of the
store `endpoints` that also moves the cursor. The id of a delivery derives from its cause, so a
repeat is the same delivery.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from memrelay.memory.endpoint_rules import matches
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.endpoints import show_url
from memrelay.memory.models.endpoints.events import DEAD_LETTER_ADDED, DEPLOYED, DISABLED
from memrelay.memory.models.endpoints.table import KEPT_MS, Endpoint, EndpointTable

# The name of the cursor of deploys, among those of stores, which have at least two parts.
DEPLOYS = "deploys"


class ServiceEvent(NamedTuple):
    """An event. `cause` is the same whenever it is made again. `at` is Unix ms.

    The endpoint `about` does not get it.
    """

    type: str
    cause: str
    data: Mapping[str, Any]
    at: int
    about: str = ""


def make_dead_letter_event(uid: str, letter: Any) -> ServiceEvent:
    """Return the event of a dead letter (Listed of the control plane). It has no texts."""
    data = {
        "id": letter.id,
        "pipeline": uid,
        "swarm": letter.swarm,
        "agent": letter.agent,
        "attempts": letter.attempts,
    }
    return ServiceEvent(
        DEAD_LETTER_ADDED, f"dl_{letter.id}/{letter.failed_at}", data, letter.failed_at
    )


def make_deploy_event(deployed: Any) -> ServiceEvent:
    """Return the event of a version (Deployed of the control plane)."""
    data = {
        "id": f"deploy_{deployed.version}",
        "pipeline": deployed.uid,
        "name": deployed.name,
        "version": deployed.version,
        "bundle": deployed.hash,
    }
    cause = f"deploy_{deployed.version}/{deployed.deployed_at}"
    return ServiceEvent(DEPLOYED, cause, data, deployed.deployed_at)


def make_disabled_event(endpoint: Endpoint, now_ms: int) -> ServiceEvent:
    """Return the event of an endpoint that was switched off."""
    data = {
        "id": endpoint.id,
        "url": show_url(endpoint.spec.url),
        "reason": endpoint.disabled,
    }
    return ServiceEvent(DISABLED, f"disabled_{endpoint.id}/{now_ms}", data, now_ms, endpoint.id)


def read_cursors(stores: OpenStores, name: str, of_letters: str) -> tuple[int, int | None]:
    """Return the position of the last dead letter and the last version that are deliveries.

    `of_letters` is the name of the cursor of dead letters. `name` is the store of the endpoints.
    """
    table = stores.get(name).table(EndpointTable)
    return table.cursor(of_letters) or 0, table.cursor(DEPLOYS)


def add_service_events(
    stores: OpenStores,
    name: str,
    events: Iterable[ServiceEvent],
    cursors: Mapping[str, int],
    now_ms: int,
) -> None:
    """Make deliveries of events, except of very old ones, and move the cursors."""
    with stores.get(name).transaction() as tx:
        table = tx.table(EndpointTable)
        add_events(table, [one for one in events if one.at > now_ms - KEPT_MS])
        for cursor, value in cursors.items():
            table.set_cursor(cursor, value)


def add_events(table: EndpointTable, events: Iterable[ServiceEvent]) -> None:
    """Make deliveries of events for the endpoints that get them. A filter is one of records."""
    endpoints = table.all()
    table.add(
        _make_row(event, endpoint)
        for event in events
        for endpoint in endpoints
        if endpoint.created_at <= event.at
        and endpoint.id != event.about
        and not endpoint.spec.filter
        and any(matches(glob, event.type) for glob in endpoint.spec.events)
    )


def _make_row(event: ServiceEvent, endpoint: Endpoint) -> tuple[Any, ...]:
    cause = f"{endpoint.id}/{event.cause}"
    id_ = f"msg_{hashlib.sha256(cause.encode()).hexdigest()[:32]}"
    data = orjson.dumps(event.data).decode()
    return (id_, endpoint.id, "", 0, event.type, event.data["id"], data, event.at, event.at)
