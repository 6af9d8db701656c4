"""Routes that create, list, read, change and delete the objects of one kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from memrelay.web.models.request_fields import Body, Json
from memrelay.web.models.routes import TIMES, Route
from memrelay.web.models.shapes import to_shape
from memrelay.web.server.errors import BadRequest

Query = Mapping[str, tuple[str, str]]
NO_QUERY: Query = {}
VOWELS = "aeiou"


def keep(output: Json) -> Json:
    """Return an output as it is."""
    return output


def check_id(request: web.Request, body: Json) -> None:
    """Raise BadRequest if an object has another id than the path or the parameter `id`."""
    expected = request.match_info.get("id", request.query.get("id"))
    # An instance may be named by its name.
    if expected is None or body.get("id", expected) == expected or body.get("name") == expected:
        return
    message = f"the body has another id than the path: {str(body['id'])[:100]!r}"
    fault = {"pointer": "/id", "rule": message, "suggestion": "", "code": "bad_id"}
    raise BadRequest(f"{message}; an id never changes", faults=[fault])


@dataclass(frozen=True, slots=True)
class Crud:
    """The routes of one kind of objects.

    `noun` is that of the operations, and `name` the English name, for example `graph`.
    `flatten` prepares an output for the shape. `fixed` are values that the paths imply.
    """

    noun: str
    name: str
    shape: Any
    flatten: Callable[[Json], Json] = keep
    fixed: Json = field(default_factory=dict)

    def create(self, path: str, body: Body) -> Route:
        """Return the route that creates an object."""
        return Route(
            "POST",
            path,
            f"{self.noun}.create",
            f"Create {self._a_name}.",
            convert=lambda call: self._convert(call.output),
            shape=self.shape,
            status=201,
            fixed=self.fixed,
            body=body.accept(self.shape, *TIMES),
        )

    def list_all(self, path: str, query: Query = NO_QUERY) -> Route:
        """Return the route that lists all objects."""
        return Route(
            "GET",
            path,
            f"{self.noun}.list",
            f"List all {self.name}s.",
            convert=lambda call: [self._convert(one) for one in call.output["items"]],
            shape=list[self.shape],  # type: ignore[name-defined]
            fixed=self.fixed,
            query=query,
        )

    def read(self, path: str) -> Route:
        """Return the route that reads an object."""
        return Route(
            "GET",
            path,
            f"{self.noun}.get",
            f"Return {self._a_name}.",
            convert=lambda call: self._convert(call.output),
            shape=self.shape,
            fixed=self.fixed,
        )

    def update(self, path: str, body: Body, query: Query = NO_QUERY) -> Route:
        """Return the route that changes the given fields of an object."""
        return Route(
            "PUT",
            path,
            f"{self.noun}.update",
            f"Change the given fields of {self._a_name}.",
            convert=lambda call: self._convert(call.output),
            shape=self.shape,
            fixed=self.fixed,
            query=query,
            body=body.accept(self.shape),
            check=check_id,
        )

    def delete(self, path: str, query: Query = NO_QUERY) -> Route:
        """Return the route that deletes an object with all that belongs to it."""
        return Route(
            "DELETE",
            path,
            f"{self.noun}.delete",
            f"Delete {self._a_name}.",
            status=204,
            fixed=self.fixed,
            query=query,
        )

    @property
    def _a_name(self) -> str:
        return f"{'an' if self.name[0] in VOWELS else 'a'} {self.name}"

    def _convert(self, output: Json) -> Any:
        return to_shape(self.shape, self.flatten(output))
