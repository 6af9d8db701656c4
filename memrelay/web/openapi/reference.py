"""The API reference: the groups of the OpenAPI document with their routes, made for reading."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from memrelay.web.openapi.document import PATH_PARAMETER
from memrelay.web.openapi.groups import SECTIONS, Group
from memrelay.web.openapi.route_docs import FORM
from memrelay.web.openapi.schema_text import Field

# The last part of a path whose call deletes data.
DESTRUCTIVE = re.compile(
    r"(erase|forget|clear|prune|remove|delete|drop|logout)(_\w+)?|batch-delete"
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a route. `place` is path, query or header."""

    name: str
    place: str
    type: str
    description: str
    is_required: bool
    is_list: bool


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request."""

    media_type: str
    description: str
    fields: tuple[Field, ...]
    example: Any

    @property
    def text(self) -> str:
        """The example as indented JSON, or as a form."""
        if self.media_type == FORM:
            return urlencode(self.example)
        return json.dumps(self.example, indent=2, ensure_ascii=False)

    @property
    def line(self) -> str:
        """The example on one line."""
        if self.media_type == FORM:
            return self.text
        return json.dumps(self.example, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `type` is "" without a body."""

    status: str
    description: str
    type: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `common` are the statuses of errors that most routes have.

    `alias` is the same route below the prefix that names a pipeline, or None.
    """

    ident: str
    method: str
    path: str
    summary: str
    scope: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    responses: tuple[Response, ...]
    common: tuple[str, ...]
    alias: "Route | None" = None

    @property
    def is_destructive(self) -> bool:
        """Return whether a call deletes data."""
        last = self.path.rpartition("/")[2]
        return self.method == "DELETE" or DESTRUCTIVE.fullmatch(last) is not None

    def matches(self, words: list[str]) -> bool:
        """Return whether the route contains all of the words, which are in lower case."""
        text = f"{self.method} {self.path} {self.ident} {self.summary}".lower()
        return all(word in text for word in words)

    def make_curl(self, server: str) -> str:
        """Return an example command. Names of the path are placeholders in capitals."""
        path = PATH_PARAMETER.sub(lambda match: match[1].upper(), self.path)
        needed = [one for one in self.parameters if one.is_required and one.place == "query"]
        query = "&".join(f"{one.name}={one.name.upper()}" for one in needed)
        parts = ["curl", *([] if self.method == "GET" else ["-X", self.method])]
        parts.append(quote(server + path + (f"?{query}" if query else "")))
        if self.body:
            kind = quote(f"Content-Type: {self.body.media_type}")
            parts += ["-H", kind, "-d", quote(self.body.line)]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Page:
    """A group with its routes in the order of their paths."""

    name: str
    group: Group
    routes: tuple[Route, ...]

    @property
    def count(self) -> int:
        """Return the number of operations, those below the prefix of a pipeline included."""
        return len(self.routes) + sum(route.alias is not None for route in self.routes)


@dataclass(frozen=True, slots=True)
class Reference:
    """All groups in the order of the overview."""

    pages: tuple[Page, ...]

    def find(self, name: str) -> Page | None:
        """Return a group, or None if there is none with this name."""
        return next((page for page in self.pages if page.name == name), None)

    def list_sections(self) -> Iterator[tuple[str, list[Page]]]:
        """Yield the sections of the overview with their groups."""
        for section in SECTIONS:
            yield section, [page for page in self.pages if page.group.section == section]

    def search(self, text: str) -> list[Page]:
        """Return the groups with only the routes that contain all words of a text."""
        words = text.lower().split()
        found = []
        for page in self.pages:
            title = f"{page.name} {page.group.title}".lower()
            left = [word for word in words if word not in title]
            routes = tuple(route for route in page.routes if route.matches(left))
            if routes:
                found.append(Page(page.name, page.group, routes))
        return found
