"""The rules for the fields of endpoints, in operations and in bundles."""

import base64
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from memrelay.memory.engine.models import load
from memrelay.memory.records.filters import Filter

__all__ = [
    "Description",
    "EventTypes",
    "Filter",
    "Format",
    "Headers",
    "Rate",
    "Secret",
    "Template",
    "Url",
]

MOST_ENDPOINTS = 100
MAX_URL = 2048
TEST_TYPE = "endpoint.test"
# Lists the types of events, which is loaded with the first endpoint.
EVENT_TYPES = "memrelay.memory.models.endpoints.events:list_event_types"
SECRET_PREFIX = "whsec_"
# Bytes of a secret, as Standard Webhooks demand.
LEAST_BYTES, MOST_BYTES = 24, 64
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
# The check of templates, which is loaded for the first one.
CHECK_TEMPLATE = "memrelay.worker.endpoints.templates:check_template"


def is_reference(value: str) -> bool:
    """Return whether a URL or secret is a reference, `env:NAME` or `file:NAME`."""
    return REFERENCE.fullmatch(value) is not None


def check_url(url: str) -> str:
    """Return a URL or a reference that is allowed. Raises ValueError."""
    if is_reference(url):
        return url
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"the url is malformed: {error}") from error
    if parts.scheme not in ("https", "http") or not host or not url.isascii():
        raise ValueError(
            "the url is https://HOST/PATH in ASCII, or a reference env:NAME or file:NAME"
        )
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("the url has a space or a control character; encode it as %20")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the url has a user or a password; put them into a secret, as `url: env:NAME`"
        )
    if parts.fragment:
        raise ValueError("the url has a part after #, which is never sent; leave it out")
    return url


def check_event_type(glob: str) -> str:
    """Return a pattern that matches a type of events. Raises ValueError."""
    if not GLOB.fullmatch(glob):
        raise ValueError(
            f"{glob!r} is no type of events: use one like record.created, or a pattern like "
            "record.* or *"
        )
    types = load(EVENT_TYPES)()
    if not any(matches(glob, name) for name in (*types, TEST_TYPE)):
        raise ValueError(f"{glob!r} matches no type of events: {', '.join(types)}")
    return glob


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


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return headers that are allowed. Raises ValueError."""
    if len(headers) > MOST_HEADERS:
        raise ValueError(f"an endpoint has at most {MOST_HEADERS} headers")
    for name, value in headers.items():
        lower = name.lower()
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"header {name[:100]!r}: a name is a token, and a value one line of at most 1,024 "
                "printable ASCII characters"
            )
        if lower in OUR_HEADERS or lower.startswith(("webhook-", "ce-")):
            raise ValueError(f"header {name!r} is set by the delivery itself; leave it out")
    return headers


def check_secret(secret: str) -> str:
    """Return a secret that can sign, a reference or "". Raises ValueError."""
    if not secret or is_reference(secret):
        return secret
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"a secret is {SECRET_PREFIX} followed by the base64 of {LEAST_BYTES} to {MOST_BYTES} "
            "bytes, or a reference env:NAME or file:NAME; leave it out to have one made"
        )
    return secret


def check_template(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template that is valid, or {} for none. Raises ValueError."""
    if template:
        load(CHECK_TEMPLATE)(template)
    return template


def find_format_fault(format: str, template: Any) -> str:
    """Return why an endpoint may not have both, "" if it may."""
    if not template or format == "standard":
        return ""
    return (
        f"`template` is a body of its own: leave out the format {format}, or set the "
        "template to {}"
    )


Url = Annotated[str, Field(min_length=1, max_length=MAX_URL), AfterValidator(check_url)]
EventType = Annotated[str, Field(min_length=1, max_length=81), AfterValidator(check_event_type)]
EventTypes = Annotated[tuple[EventType, ...], Field(min_length=1, max_length=64)]
Headers = Annotated[dict[str, str], AfterValidator(check_headers)]
Secret = Annotated[str, Field(max_length=1024), AfterValidator(check_secret)]
Template = Annotated[dict[str, Any], AfterValidator(check_template)]
Format = Literal["standard", "cloudevents", "cloudevents-binary", "slack", "discord"]
Description = Annotated[str, Field(max_length=1024)]
Rate = Annotated[int, Field(ge=0, le=10_000)]
