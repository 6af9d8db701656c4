"""One webhook request, and the values of its parts that a sender's description refers to."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from msgspec import structs

from memrelay.pipelines.expressions import ExpressionFault, compile_expression
from memrelay.pipelines.secret_references import REDACTED
from memrelay.pipelines.webhook_fields import Place, parse_field
from memrelay.pipelines.webhook_senders import Sender
from memrelay.web.server.options import OPTIONS
from memrelay.web.webhooks.body import WebhookBody, read_webhook_body

# Bytes of a value that an expression reads, such as the signatures of all elements of a list.
MAX_VALUE_BYTES = 1 << 20
MAX_KEPT_CHARACTERS = 200
DEFAULT_PORTS = {"https": 443, "http": 80}


compile_cached = lru_cache(maxsize=1000)(compile_expression)


def find_header(headers: Mapping[str, str], name: str) -> str:
    """Return a header, or "". Senders are about to drop the `X-` in front of names."""
    return headers.get(name) or headers.get(name.removeprefix("X-"), "")


class HookRequest:
    """A request with its complete body, as its sender signed it."""

    def __init__(self, request: web.Request, raw: bytes, sender: Sender) -> None:
        self.method, self.headers, self.raw = request.method, request.headers, raw
        self.sender, self._request = sender, request

    @cached_property
    def body(self) -> WebhookBody:
        """Return the parsed body. Raises the errors of `read_webhook_body`."""
        content_type = self.headers.get(hdrs.CONTENT_TYPE, "")
        return read_webhook_body(
            self.raw, content_type, self._request.app[OPTIONS], self.sender.form_field
        )

    def get_body(self, key: bytes) -> WebhookBody:
        """Return the body, without the secret `key` if the sender puts it there."""
        spec = self.sender.signature
        has_secret = spec is not None and spec.algorithm == "token" and spec.is_in_body
        if not key or not has_secret:
            return self.body
        secret = json.dumps(key.decode(errors="surrogateescape"), ensure_ascii=False)
        return structs.replace(self.body, text=self.body.text.replace(secret, f'"{REDACTED}"'))

    @cached_property
    def urls(self) -> tuple[str, ...]:
        """Return the URL that the sender was given, first as it is, then in its other spelling.

        The other one has the default port, or lacks it. It is () without `web.public_url`.
        """
        return make_urls(self._request.app[OPTIONS].public_url, self._request.raw_path)

    @cached_property
    def event(self) -> str:
        """Return the name of the event, or ""."""
        return self.find_first(self.sender.event)[:MAX_KEPT_CHARACTERS]

    @cached_property
    def delivery_id(self) -> str:
        """Return the sender's id of the delivery, or ""."""
        return self.find_first(self.sender.id)

    @property
    def kept_headers(self) -> dict[str, str]:
        """Return the headers that the message keeps, by their names in lower case."""
        found = {name.lower(): find_header(self.headers, name) for name in self.sender.headers}
        return {name: value[:MAX_KEPT_CHARACTERS] for name, value in found.items() if value}

    def find_first(self, fields: Sequence[str]) -> str:
        """Return the value of the first field that the request has, or ""."""
        return next(filter(None, map(self.read_field, fields)), "")

    def find_in_head(self, fields: Sequence[str]) -> str:
        """Return what `find_first` does of the fields that need headers alone, or ""."""
        return self.find_first([one for one in fields if _is_in_headers(one)])

    def read_field(self, text: str) -> str:
        """Return the text that a reference leads to, or "" if a part of it is missing."""
        values = [
            part if isinstance(part, str) else self.read_place(part) for part in parse_field(text)
        ]
        return "".join(values) if all(values) else ""

    def read_value(self, expression: str) -> Any:
        """Return the JSON value of an expression over the body, or None."""
        try:
            return compile_cached(expression).evaluate(self.body.value, MAX_VALUE_BYTES)
        except ExpressionFault:
            return None

    def read_text(self, expression: str) -> str:
        """Return the text or number of an expression over the body, or ""."""
        return as_text(self.read_value(expression))

    def read_place(self, place: Place) -> str:
        """Return the text of one part of the request, or ""."""
        match place.kind:
            case "header":
                return find_header(self.headers, place.name)
            case "body" if place.name:
                return self.read_text(place.name)
            case "body":
                return self.raw.decode(errors="surrogateescape")
            case "digest":
                return hashlib.sha256(f"{self.event}\n".encode() + self.raw).hexdigest()
            case "form":
                fields = sorted(self.body.form)
                return hashlib.sha256(repr(fields).encode()).hexdigest() if fields else ""
            case "url":
                return self.urls[0] if self.urls else ""
            case "method":
                return self.method
            case "event":
                return self.event
        return ""


def _is_in_headers(text: str) -> bool:
    return all(isinstance(part, str) or part.kind == "header" for part in parse_field(text))


def as_text(value: Any) -> str:
    """Return a text or a number as text, and "" for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if isinstance(value, str) or is_number else ""


def make_urls(public_url: str, raw_path: str) -> tuple[str, ...]:
    """Return the URL of a path below `public_url`, without and with its default port."""
    if not public_url:
        return ()
    parts = urlsplit(public_url)
    base, path = parts.path.rstrip("/"), raw_path.partition("#")[0]
    path = path if base and path.startswith(f"{base}/") else base + path
    host, port = parts.netloc, f":{DEFAULT_PORTS.get(parts.scheme, '')}"
    other = host + port if parts.port is None else host.removesuffix(port)
    return tuple(f"{parts.scheme}://{name}{path}" for name in dict.fromkeys((host, other)))
