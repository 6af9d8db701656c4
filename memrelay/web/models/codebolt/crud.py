"""Routes that create, list, read, change and delete the objects of one kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from memrelay.web.models.request_fields import Body, Json
from memrelay.web.models.routes import TIMES, Route
from memrelay.web.models.shapes import array_of, to_shape
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
        body = body.accept(self.shape, *TIMES)
        return self._route("POST", path, "create", f"Create {self._a_name}.", status=201, body=body)

    def list_all(self, path: str, query: Query = NO_QUERY) -> Route:
        """Return the route that lists all objects."""
        return replace(
            self._route("GET", path, "list", f"List all {self.name}s.", query=query),
            convert=lambda call: [self._convert(one) for one in call.output["items"]],
            shape=array_of(self.shape),
        )

    def read(self, path: str) -> Route:
        """Return the route that reads an object."""
        return self._route("GET", path, "get", f"Return {self._a_name}.")

    def update(self, path: str, body: Body, query: Query = NO_QUERY) -> Route:
        """Return the route that changes the given fields of an object."""
        summary = f"Change the given fields of {self._a_name}."
        body = body.accept(self.shape)
        return self._route("PUT", path, "update", summary, query=query, body=body, check=check_id)

    def delete(self, path: str, query: Query = NO_QUERY) -> Route:
        """Return the route that deletes an object with all that belongs to it."""
        route = self._route("DELETE", path, "delete", f"Delete {self._a_name}.", query=query)
        return replace(route, status=204, convert=None, shape=None)

    def _route(self, method: str, path: str, verb: str, summary: str, **options: Any) -> Route:
        """Return a route that answers with an object."""
        return Route(
            method,
            path,
            f"{self.noun}.{verb}",
            summary,
            self.shape,
            convert=lambda call: self._convert(call.output),
            fixed=self.fixed,
            **options,
        )

    @property
    def _a_name(self) -> str:
        return f"{'an' if self.name[0] in VOWELS else 'a'} {self.name}"

    def _convert(self, output: Json) -> Any:
        return to_shape(self.shape, self.flatten(output))
