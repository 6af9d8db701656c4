"""Endpoints: create, list, get, update, delete, test, rotate and enable them."""

import base64
import re
import secrets
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from memrelay.guarded_http.rules import shorten_url
from memrelay.memory.engine.feed import TYPES
from memrelay.memory.engine.models import load
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.endpoints.table import Endpoint, EndpointSpec, EndpointTable, Secret
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.filters import Filter

MOST_ENDPOINTS = 100
MAX_URL = 2048
TEST_TYPE = "endpoint.test"
PREFIX = "whsec_"
SECRET_BYTES = 24
# Bytes of a secret, as Standard Webhooks demand.
LEAST_BYTES, MOST_BYTES = 24, 64
# How long the old secret signs too after a rotation.
OVERLAP_S = 86_400
REFERENCE = re.compile(r"(env|file):[^\s]{1,1000}")
GLOB = re.compile(r"[a-z_*]{1,40}(\.[a-z_*]{1,40})?")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1024}")
MOST_HEADERS = 16
# Headers that a delivery sets itself, or that would change how it is sent.
OUR_HEADERS = frozenset(
    (
        *("connection", "content-length", "content-type", "cookie", "host", "memrelay-hop"),
        "transfer-encoding",
    )
)
# The check of templates, which a worker loads for the first one.
CHECK_TEMPLATE = "memrelay.worker.endpoints.templates:check_template"
Format = Literal["standard", "cloudevents", "cloudevents-binary", "slack", "discord"]
Url = Annotated[str, Field(min_length=1, max_length=MAX_URL)]
Events = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=81)], ...],
    Field(min_length=1, max_length=64),
]
Description = Annotated[str, Field(max_length=1024)]
Rate = Annotated[int, Field(ge=0, le=10_000)]
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
    failures: int
    """Failed tries since the last success."""
    last_at: Moment | None
    """When the last try was made; null for never."""
    last_answer: str
    """The status of the last answer, or why there was none."""


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint to create."""

    url: Url
    """The URL: https://... or a reference to it, `env:NAME` or `file:NAME`."""
    events: Events = ("*",)
    """Types of events, such as `record.created`; `*` stands for any characters."""
    filter: Filter | None = None
    """Only events about records that pass this filter (docs/filters.md)."""
    secret: Annotated[str, Field(max_length=1024)] = ""
    """The secret that signs: `whsec_<base64>`, `env:NAME` or `file:NAME`. By default, one is made
    and returned once."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers, at most 16."""
    format: Format = "standard"
    """The form of the body."""
    template: dict[str, Any] | None = None
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
    made = "" if new.secret else _make_secret()
    endpoint = Endpoint(
        f"ep_{context.new_guid().replace('-', '')[:24]}",
        spec,
        (Secret(_checked_secret(new.secret or made)),),
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
    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)] | None = None
    """The new URL, or a reference to it."""
    events: Events | None = None
    """The new types of events."""
    filter: Filter | None = None
    """The new filter; `{}` for none."""
    headers: dict[str, str] | None = None
    """The new headers."""
    format: Format | None = None
    """The new form of the body."""
    template: dict[str, Any] | None = None
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

    Raises RecordNotFound: when there is none. Raises Refused as `endpoints.create`.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, change.id)
    before = {one.name: getattr(endpoint.spec, one.name) for one in fields(endpoint.spec)}
    before["headers"] = dict(endpoint.spec.headers)
    given = {name: value for name in before if (value := getattr(change, name)) is not None}
    endpoint = endpoint._replace(
        spec=_make_spec(NewEndpoint(**(before | given))), updated_at=context.now_ms
    )
    if change.active:
        endpoint = _switch_on(endpoint)
    elif change.active is False:
        endpoint = endpoint._replace(disabled="switched off")
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

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    find(table, request.id)
    waiting, *_ = table.counts(request.id)
    table.delete(request.id)
    return EndpointDeleted(request.id, waiting)


@operation("endpoints.enable", access="admin", mutates=True, store="endpoints")
def enable(tx: Transaction, request: EndpointOf, context: Context) -> EndpointView:
    """Send to an endpoint again that was switched off. Its waiting deliveries go out now.

    Raises RecordNotFound: when there is none.
    """
    table = tx.table(EndpointTable)
    endpoint = _switch_on(find(table, request.id))._replace(updated_at=context.now_ms)
    table.put(endpoint)
    table.hurry(request.id, context.now_ms)
    return _view(table, endpoint)


@dataclass(frozen=True, slots=True)
class RotateSecret:
    """The endpoint, and its new secret."""

    id: EndpointId
    """The id of the endpoint."""
    secret: Annotated[str, Field(max_length=1024)] = ""
    """The new secret, or a reference to it. By default, one is made and returned once."""
    overlap_s: Annotated[int, Field(ge=0, le=30 * OVERLAP_S)] = OVERLAP_S
    """Seconds during which the old secret signs too; 86,400 by default."""


@operation("endpoints.rotate", access="admin", mutates=True, store="endpoints")
def rotate(tx: Transaction, request: RotateSecret, context: Context) -> EndpointCreated:
    """Give an endpoint a new secret. Until the overlap ends, both sign each delivery.

    Raises RecordNotFound: when there is none. Raises Refused: when the secret is not allowed.
    """
    table = tx.table(EndpointTable)
    endpoint = find(table, request.id)
    made = "" if request.secret else _make_secret()
    until = context.now_ms + request.overlap_s * 1000
    old = endpoint.secrets[0]._replace(until=until)
    endpoint = endpoint._replace(
        secrets=(Secret(_checked_secret(request.secret or made)), old), updated_at=context.now_ms
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


def _switch_on(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that gets deliveries again, as if it had never failed."""
    return endpoint._replace(disabled="", failures=0, failing_since=None)


def show_url(url: str) -> str:
    """Return a URL without its path, which is often a secret. References stay as they are."""
    return url if REFERENCE.fullmatch(url) else shorten_url(url)


def _view(table: EndpointTable, endpoint: Endpoint) -> EndpointView:
    spec, counts = endpoint.spec, table.counts(endpoint.id)
    return EndpointView(
        endpoint.id,
        show_url(spec.url),
        spec.events,
        spec.filter,
        spec.format,
        spec.template,
        dict(spec.headers),
        spec.ordered,
        spec.rate,
        spec.description,
        not endpoint.disabled,
        endpoint.disabled,
        format_time(endpoint.created_at),
        format_time(endpoint.updated_at),
        *counts,
        endpoint.failures,
        None if endpoint.last_at is None else format_time(endpoint.last_at),
        endpoint.last_answer,
    )


def _make_spec(new: NewEndpoint) -> EndpointSpec:
    """Return the checked values of an endpoint. Raises Refused."""
    _check_url(new.url)
    for glob in new.events:
        _check_event(glob)
    _check_headers(new.headers)
    _check_template(new)
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


def _check_url(url: str) -> None:
    if REFERENCE.fullmatch(url):
        return
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Refused(f"the url is malformed: {error}") from error
    if parts.scheme not in ("https", "http") or not host or not url.isascii():
        raise Refused("the url is https://HOST/PATH in ASCII, or a reference env:NAME or file:NAME")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise Refused("the url has a space or a control character; encode it as %20")
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "the url has a user or a password; put them into a secret, as `url: env:NAME`"
        )
    if parts.fragment:
        raise Refused("the url has a part after #, which is never sent; leave it out")


def _check_event(glob: str) -> None:
    if not GLOB.fullmatch(glob):
        raise Refused(
            f"{glob!r} is no type of events: use one like record.created, or a pattern like "
            "record.* or *"
        )
    if not any(matches(glob, name) for name in (*TYPES, TEST_TYPE)):
        raise Refused(f"{glob!r} matches no type of events: {', '.join(TYPES)}")


def matches(glob: str, name: str) -> bool:
    """Return whether a pattern, in which `*` stands for any characters, matches a type."""
    first, *others = glob.split("*")
    if not others:
        return glob == name
    if not name.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - at >= len(others[-1]) and name.endswith(others[-1])


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > MOST_HEADERS:
        raise Refused(f"an endpoint has at most {MOST_HEADERS} headers")
    for name, value in headers.items():
        lower = name.lower()
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise Refused(
                f"header {name[:100]!r}: a name is a token, and a value one line of at most 1,024 "
                "printable ASCII characters"
            )
        if lower in OUR_HEADERS or lower.startswith(("webhook-", "ce-")):
            raise Refused(f"header {name!r} is set by the delivery itself; leave it out")


def _check_template(new: NewEndpoint) -> None:
    if not new.template:
        return
    if new.format != "standard":
        raise Refused(
            f"`template` is a body of its own: leave out the format {new.format}, or set the "
            "template to {}"
        )
    try:
        load(CHECK_TEMPLATE)(new.template)
    except ValueError as error:
        raise Refused(f"template: {error}") from error


def _make_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def _checked_secret(secret: str) -> str:
    """Return a secret that can sign. Raises Refused."""
    if REFERENCE.fullmatch(secret):
        return secret
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise Refused(
            f"a secret is {PREFIX} followed by the base64 of {LEAST_BYTES} to {MOST_BYTES} bytes, "
            "or a reference env:NAME or file:NAME; leave it out to have one made"
        )
    return secret
