"""Declarations of Codebolt's routes: each one calls an operation.

A declaration states how a request becomes the input of the operation, and how its output becomes
the response.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from aiohttp import web

from memrelay.web.codebolt.fields import Fields, Json
from memrelay.web.server.errors import Problem

# Fields of objects that every answer has and no request sets.
TIMES = ("createdAt", "updatedAt")
# A parameter in a path.
PATH_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a request made: the pipeline, the input, and the output."""

    request: web.Request
    uid: str
    given: Json
    output: Any
    # Whether the body had the field that selects the second form of the body.
    is_batch: bool = False


Answer = Callable[[Call], web.Response]


@dataclass(frozen=True, slots=True)
class Body:
    """A request body.

    `fields` are its fields, or `whole` is the field of the operation that takes the body itself.
    A body with the field `batch_key` has `batch` as its fields instead. `read_only` are further
    fields of the object in the answer: clients may send an object back as they read it.
    """

    fields: Fields = field(default_factory=dict)
    whole: str = ""
    batch_key: str = ""
    batch: Fields = field(default_factory=dict)
    example: str = ""
    read_only: tuple[str, ...] = ()

    def accept(self, shape: Any, *names: str) -> "Body":
        """Return the body with the fields of a shape as read-only ones, or only `names` of it."""
        known = {one.partition("/")[0] for spellings in self.fields.values() for one in spellings}
        wanted = names or tuple(get_type_hints(shape))
        return replace(self, read_only=tuple(one for one in wanted if one not in known))

    def without_read_only(self, value: Json) -> Json:
        """Return the JSON of a body without its read-only fields."""
        items = value.get(self.batch_key)
        if self.batch_key and isinstance(items, list):
            stripped = [self._strip(one) if isinstance(one, dict) else one for one in items]
            return value | {self.batch_key: stripped}
        return self._strip(value)

    def _strip(self, value: Json) -> Json:
        return {name: one for name, one in value.items() if name not in self.read_only}


@dataclass(frozen=True, slots=True)
class Route:
    """A route. The parameters in its path are fields of the operation, or `path_fields` maps them.

    `query` maps a parameter to (field, description), and `headers` a header likewise. `fixed` are
    values that the path implies. `shape` is the type of the JSON response. `check` rejects a
    body. `before`, and then `after` or `failed`, send live events about the call.
    """

    method: str
    path: str
    operation: str
    summary: str
    answer: Answer
    shape: Any = None
    status: int = 200
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    description: str = "The answer."
    fixed: Json = field(default_factory=dict)
    path_fields: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    headers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    body: Body | None = None
    check: Callable[[web.Request, Json], None] | None = None
    before: Callable[[web.Request, str, Json], None] | None = None
    after: Callable[[Call], None] | None = None
    failed: Callable[[web.Request, str, Problem], None] | None = None

    @property
    def name(self) -> str:
        """The unique name of the route: `post_kvstore_kv`."""
        return re.sub(r"\W+", "_", f"{self.method.lower()}{self.path}").strip("_")
