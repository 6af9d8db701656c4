"""Endpoints: create, list, get, update, delete, test, rotate and enable them."""

import base64
import secrets
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from pydantic import Field

from memrelay.guarded_http.rules import shorten_url
from memrelay.memory.endpoint_rules import (
    MOST_ENDPOINTS,
    SECRET_PREFIX,
    TEST_TYPE,
    Description,
    EventTypes,
    Filter,
    Format,
    Headers,
    Rate,
    Template,
    Url,
    find_format_fault,
    is_reference,
)
from memrelay.memory.endpoint_rules import Secret as GivenSecret
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.endpoints.table import (
    MADE_PREFIX,
    Endpoint,
    EndpointSpec,
    EndpointTable,
    Secret,
)
from memrelay.memory.operations import Context, operation

# Why an endpoint is off that a user switched off.
BY_USER = "switched off"
# Stands for the value of a header, which often is a secret.
HIDDEN = "…"
SECRET_BYTES = 24
# How long the old secret signs too after a rotation.
OVERLAP_S = 86_400
EndpointId = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint. The URL has a digest in place of its path, because paths often are secrets."""

    id: str
    url: str
    events: tuple[str, ...]
    filter: Any
    format: str
    template: dict[str, Any] | None
    headers: dict[str, str]
    ordered: bool
    rate: int
    description: str
    active: bool
    disabled: str
    """Why nothing is sent; empty while the endpoint is active."""
    created_at: Moment
    updated_at: Moment
    waiting: int
    """Deliveries that wait for their first or next try."""
    delivered: int
    """Deliveries of the last 30 days that the receiver accepted."""
    failed: int
    """Deliveries of the last 30 days that ended without success."""
    latency_ms: int | None
    """The median time of the last 100 deliveries that the receiver accepted; null for none."""
    failures: int
    """Failed tries since the last success."""
    last_at: Moment | None
    """When the last try was made; null for never."""
    last_answer: str
    """The status of the last answer, or why there was none."""
    declared: bool
    """Whether the bundle of the pipeline declares the endpoint. Then its id is its name there."""


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint to create."""

    url: Url
    """The URL: https://... or a reference to it, `env:NAME` or `file:NAME`."""
    events: EventTypes = ("*",)
    """Types of events, such as `record.created`; `*` stands for any characters."""
    filter: Filter | None = None
    """Only events about records that pass this filter (docs/filters.md)."""
    secret: GivenSecret = ""
    """The secret that signs: `whsec_<base64>`, `env:NAME` or `file:NAME`. By default, one is made
    and returned once."""
    headers: Headers = field(default_factory=dict)
    """Further headers, at most 16."""
    format: Format = "standard"
    """The form of the body."""
    template: Template | None = None
    """The body as a JSON object whose strings are templates over `type`, `timestamp` and `data`, in
    place of a format."""
    ordered: bool = False
    """Send the events of a store one after the other, each until it succeeds or ends."""
    rate: Rate = 0
    """The maximum number of deliveries a second; 0 for no limit."""
    description: Description = ""
    """What the endpoint is for."""


@dataclass(frozen=True, slots=True)
class EndpointCreated:
    """The new endpoint, with its secret if it was made here. No other call returns it."""

    endpoint: EndpointView
    secret: str
    """The secret; empty if it was given."""


@operation("endpoints.create", access="admin", mutates=True, store="endpoints")
def create(tx: Transaction, new: NewEndpoint, context: Context) -> EndpointCreated:
    """Create an endpoint. It gets the events from now on.

    Raises Refused: when the URL, an event type, a header or the secret is not allowed, or the
    pipeline has 100 endpoints.
    """
    table = tx.table(EndpointTable)
    if table.count() >= MOST_ENDPOINTS:
        raise Refused(f"a pipeline has at most {MOST_ENDPOINTS} endpoints; delete one first")
    spec = _make_spec(new)
    made = "" if new.secret else make_secret()
    endpoint = Endpoint(
        f"{MADE_PREFIX}{context.new_guid().replace('-', '')[:24]}",
        spec,
        (Secret(new.secret or made),),
        "",
        context.now_ms,
        context.now_ms,
    )
    table.put(endpoint)
    return EndpointCreated(_view(table, endpoint), made)


@dataclass(frozen=True, slots=True)
class ListEndpoints:
    """All endpoints of the pipeline."""


@dataclass(frozen=True, slots=True)
class EndpointList:
    """The endpoints, the oldest first."""

    items: tuple[EndpointView, ...]


@operation("endpoints.list", access="read", mutates=False, store="endpoints")
def list_endpoints(tx: Transaction, request: ListEndpoints, context: Context) -> EndpointList:
    """List the endpoints of the pipeline, without secrets and paths of URLs."""
    table = tx.table(EndpointTable)
    return EndpointList(tuple(_view(table, one) for one in table.all()))


@dataclass(frozen=True, slots=True)
class EndpointOf:
    """The endpoint."""

    id: EndpointId
    """The id of the endpoint."""


@operation("endpoints.get", access="admin", mutates=False, store="endpoints")
def get(tx: Transaction, request: EndpointOf, context: Context) -> EndpointView:
    """Return an endpoint with its whole URL.

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, request.id)
    return replace(_view(table, endpoint), url=endpoint.spec.url)


@dataclass(frozen=True, slots=True)
class EndpointUpdate:
    """The changes of an endpoint. What is not given stays as it is."""

    id: EndpointId
    """The id of the endpoint."""
    url: Url | None = None
    """The new URL, or a reference to it."""
    events: EventTypes | None = None
    """The new types of events."""
    filter: Filter | None = None
    """The new filter; `{}` for none."""
    headers: Headers | None = None
    """The new headers."""
    format: Format | None = None
    """The new form of the body."""
    template: Template | None = None
    """The new template of the body; `{}` for none."""
    ordered: bool | None = None
    """Whether the events of a store are sent one after the other."""
    rate: Rate | None = None
    """The new maximum of deliveries a second."""
    description: Description | None = None
    """The new description."""
    active: bool | None = None
    """False stops the deliveries, which wait. True starts them again."""


@operation("endpoints.update", access="admin", mutates=True, store="endpoints")
def update(tx: Transaction, change: EndpointUpdate, context: Context) -> EndpointView:
    """Change an endpoint. Deliveries that wait are sent by the new values.

    Raises RecordNotFound: when there is none. Raises Refused: when a value is not allowed, or a
    bundle declares the endpoint.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, change.id)
    _check_not_from_bundle(endpoint)
    before = {one.name: getattr(endpoint.spec, one.name) for one in fields(endpoint.spec)}
    before["headers"] = dict(endpoint.spec.headers)
    given = {name: value for name in before if (value := getattr(change, name)) is not None}
    endpoint = endpoint._replace(
        spec=_make_spec(NewEndpoint(**(before | given))), updated_at=context.now_ms
    )
    if change.active:
        endpoint = switch_on(endpoint)
    elif change.active is False:
        endpoint = endpoint._replace(disabled=BY_USER)
    table.put(endpoint)
    return _view(table, endpoint)


@dataclass(frozen=True, slots=True)
class EndpointDeleted:
    """The deleted endpoint."""

    id: str
    dropped: int
    """Waiting deliveries that are not sent any more."""


@operation("endpoints.delete", access="admin", mutates=True, store="endpoints")
def delete(tx: Transaction, request: EndpointOf, context: Context) -> EndpointDeleted:
    """Delete an endpoint with its deliveries.

    Raises RecordNotFound: when there is none. Raises Refused: when the bundle declares it.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, request.id)
    if endpoint.is_declared:
        _check_not_from_bundle(endpoint)
    waiting, *_ = table.counts(request.id)
    table.delete(request.id)
    return EndpointDeleted(request.id, waiting)


@operation("endpoints.enable", access="admin", mutates=True, store="endpoints")
def enable(tx: Transaction, request: EndpointOf, context: Context) -> EndpointView:
    """Send to an endpoint again that was switched off. Its waiting deliveries go out now.

    Raises RecordNotFound: when there is none. Raises Refused: when its bundle declares it no
    longer.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, request.id)
    if not endpoint.is_declared:
        _check_not_from_bundle(endpoint)
    endpoint = switch_on(endpoint)._replace(updated_at=context.now_ms)
    table.put(endpoint)
    table.hurry(request.id, context.now_ms)
    return _view(table, endpoint)


@dataclass(frozen=True, slots=True)
class RotateSecret:
    """The endpoint, and its new secret."""

    id: EndpointId
    """The id of the endpoint."""
    secret: GivenSecret = ""
    """The new secret, or a reference to it. By default, one is made and returned once."""
    overlap_s: Annotated[int, Field(ge=0, le=30 * OVERLAP_S)] = OVERLAP_S
    """Seconds during which the old secret signs too; 86,400 by default."""


@operation("endpoints.rotate", access="admin", mutates=True, store="endpoints")
def rotate(tx: Transaction, request: RotateSecret, context: Context) -> EndpointCreated:
    """Give an endpoint a new secret. Until the overlap ends, both sign each delivery.

    Raises RecordNotFound: when there is none. Raises Refused: when the secret is not allowed, or a
    bundle declares it.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, request.id)
    if request.secret or is_reference(endpoint.secrets[0].value):
        _check_not_from_bundle(endpoint)
    made = "" if request.secret else make_secret()
    until = context.now_ms + request.overlap_s * 1000
    old = endpoint.secrets[0]._replace(until=until)
    endpoint = endpoint._replace(
        secrets=(Secret(request.secret or made), old), updated_at=context.now_ms
    )
    table.put(endpoint)
    return EndpointCreated(_view(table, endpoint), made)


@dataclass(frozen=True, slots=True)
class TestSent:
    """A test that goes out like any other delivery."""

    delivery: str
    """The id of the delivery, which `deliveries.get` takes."""


@operation("endpoints.test", access="admin", mutates=True, store="endpoints")
def test(tx: Transaction, request: EndpointOf, context: Context) -> TestSent:
    """Send an event of the type `endpoint.test`, whatever events the endpoint gets.

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    find(table, request.id)
    id_ = f"msg_{context.new_guid().replace('-', '')}"
    data = '{"message":"This is a test of the endpoint."}'
    now_ms = context.now_ms
    table.add([(id_, request.id, "", 0, TEST_TYPE, "", data, now_ms, now_ms)])
    return TestSent(id_)


def find(table: EndpointTable, id_: str) -> Endpoint:
    """Return an endpoint. Raises RecordNotFound."""
    endpoint = table.find(id_)
    if endpoint is None:
        raise RecordNotFound(f"no endpoint has the id {id_!r}; endpoints.list lists them")
    return endpoint


def _check_not_from_bundle(endpoint: Endpoint) -> None:
    """Raise Refused for an endpoint that only a deploy changes."""
    if endpoint.is_declared:
        raise Refused(
            f"the endpoint {endpoint.id!r} is declared in the bundle; change it there and deploy it"
        )
    if endpoint.is_from_bundle:
        raise Refused(
            f"the endpoint {endpoint.id!r} is no longer declared in the bundle; declare it there "
            "again, or delete it with endpoints.delete"
        )


def switch_on(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that gets deliveries again, as if it had never failed."""
    return endpoint._replace(disabled="", failures=0, failing_since=None)


def show_url(url: str) -> str:
    """Return a URL without its path, which is often a secret. References stay as they are."""
    return url if is_reference(url) else shorten_url(url)


def _view(table: EndpointTable, endpoint: Endpoint) -> EndpointView:
    spec, counts = endpoint.spec, table.counts(endpoint.id)
    return EndpointView(
        endpoint.id,
        show_url(spec.url),
        spec.events,
        spec.filter,
        spec.format,
        spec.template,
        {name: HIDDEN for name, _ in spec.headers},
        spec.ordered,
        spec.rate,
        spec.description,
        not endpoint.disabled,
        endpoint.disabled,
        format_time(endpoint.created_at),
        format_time(endpoint.updated_at),
        *counts,
        table.latency_ms(endpoint.id),
        endpoint.failures,
        None if endpoint.last_at is None else format_time(endpoint.last_at),
        endpoint.last_answer,
        endpoint.is_declared,
    )


def _make_spec(new: NewEndpoint) -> EndpointSpec:
    if fault := find_format_fault(new.format, new.template):
        raise Refused(fault)
    headers = tuple(new.headers.items())
    return EndpointSpec(
        new.url,
        new.events,
        new.filter or None,
        new.format,
        headers,
        new.ordered,
        new.rate,
        new.description,
        new.template or None,
    )


def make_secret() -> str:
    """Return a new secret that signs."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
