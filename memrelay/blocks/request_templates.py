"""The templates of an HTTP request: its URL, its headers, and its body.

Values come from strangers. They never choose the host, never end a header, and never change the
structure of a JSON body.
"""

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field

from memrelay.blocks.contract import SecretReference
from memrelay.blocks.templates import JsonExpression, JsonTemplate, render_deadline
from memrelay.guarded_http.rules import Guard, OutgoingRefused, OutgoingRules
from memrelay.memory.errors import Refused, ResultTooLarge

MAX_URL, MAX_HEADER = 8_192, 1_024
# Strings and other values of a body template.
MAX_PARTS = 1_000
ORIGIN = re.compile(r"https?://[^/?#{}\s]+", re.IGNORECASE)
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
OUR_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "cookie", "te", "upgrade"),
        *("expect", "trailer", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("idempotency-key", "memrelay-hop"),
    }
)
ANY_RULES = OutgoingRules(any_port=True, open_for=frozenset({"http"}))


class SecretHeader(BaseModel):
    """A header whose value is a secret after a fixed prefix."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: SecretReference = Field(min_length=1)
    prefix: str = Field("", max_length=100)


class UrlTemplate:
    """A URL whose path and query may have tokens. Raises ValueError."""

    def __init__(self, source: str) -> None:
        origin = ORIGIN.match(source)
        if origin is None or source[origin.end() : origin.end() + 1] not in ("", "/", "?"):
            raise ValueError(
                "must begin with a constant https://host, without tokens, or be env:NAME or "
                "file:NAME"
            )
        constants = [part.partition("}}")[2] for part in f"}}}}{source}".split("{{")]
        if any("#" in constant for constant in constants):
            raise ValueError("must have no fragment: remove the part from # on")
        try:
            Guard(ANY_RULES, "http").check_url(origin[0])
        except OutgoingRefused as refused:
            raise ValueError(str(refused)) from refused
        self._origin = origin[0]
        self.host = (urlsplit(origin[0]).hostname or "").lower()
        path, mark, query = source[origin.end() :].partition("?")
        self._path, self._query = JsonTemplate(path, quotes=True), JsonTemplate(query, quotes=True)
        self._mark = mark

    def render(self, value: Any) -> str:
        """Return the URL. Raises Refused and ResultTooLarge."""
        path = self._path.render(value)
        if any(unquote(segment) in (".", "..") for segment in path.split("/")):
            raise Refused("url: a value makes a segment of the path `.` or `..`")
        url = f"{self._origin}{path or '/'}{self._mark}{self._query.render(value)}"
        if len(url) > MAX_URL:
            raise ResultTooLarge(f"url: it has more than {MAX_URL} characters")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise Refused("url: it has characters outside of tokens that a URL must percent-encode")
        return url


def check_header_name(name: str, ours: frozenset[str] = OUR_HEADERS) -> str:
    """Return a name that a block may set. Raises ValueError."""
    if not HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:100]!r} is not the name of a header")
    if name.lower() in ours or name.lower().startswith("webhook-"):
        raise ValueError(f"the header {name} is set by Memrelay: remove it")
    return name


def check_header_value(name: str, value: str) -> str:
    """Return a value of one line. Raises Refused."""
    if len(value.encode(errors="replace")) > MAX_HEADER:
        raise Refused(f"the header {name} has more than {MAX_HEADER} bytes: truncate it")
    if not value.isprintable() or SURROGATE.search(value):
        raise Refused(f"the header {name} has line breaks or control characters")
    return value


SURROGATE = re.compile("[\ud800-\udfff]")


class BodyTemplate:
    """A JSON value whose strings are templates. Raises ValueError.

    A value is inserted as text, or as JSON if the string is one token.
    """

    def __init__(self, value: Any) -> None:
        self._count = 0
        self._tree = self._compile(value)

    def _compile(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_PARTS:
            raise ValueError(f"has more than {MAX_PARTS} values; use fewer")
        if isinstance(value, dict):
            return {str(key): self._compile(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._compile(inner) for inner in value]
        if not isinstance(value, str) or "{" not in value:
            return value
        template = JsonTemplate(value)
        return JsonExpression(value) if JsonExpression.matches(value) else template

    def render(self, value: Any, max_bytes: int) -> str:
        """Return the body as JSON. Raises Refused and ResultTooLarge."""
        return orjson.dumps(_Rendering(value, max_bytes).fill(self._tree)).decode()


class _Rendering:
    """Fills one body. All templates of it share the limits on time and size."""

    def __init__(self, value: Any, max_bytes: int) -> None:
        self._value, self._until = value, render_deadline()
        self._left = self._max_bytes = max_bytes

    def fill(self, tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: self.fill(inner) for key, inner in tree.items()}
        if isinstance(tree, list):
            return [self.fill(inner) for inner in tree]
        if isinstance(tree, JsonTemplate):
            return self._count(tree.render(self._value, self._until))
        if isinstance(tree, JsonExpression):
            return self._count(tree.evaluate(self._value, self._until))
        return tree

    def _count(self, value: Any) -> Any:
        """Return a value whose bytes are counted."""
        try:
            self._left -= len(orjson.dumps(value))
        except TypeError as error:  # a lone surrogate, or a number that is too large
            raise Refused(f"body: a value cannot be sent as JSON: {error}") from error
        if self._left < 0:
            raise ResultTooLarge(
                f"body: it has more than {self._max_bytes} bytes: select or truncate values"
            )
        return value
