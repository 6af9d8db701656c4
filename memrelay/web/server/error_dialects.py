"""Error dialects: the shapes in which compatible APIs report errors, declared by their routes.

A route without a dialect answers problem JSON (RFC 9457). A request that matches no route gets the
dialect whose prefix begins its path.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from memrelay.web.server.errors import PROBLEM_TYPE
from memrelay.web.server.options import OPTIONS

Json = dict[str, Any]
Declared = TypeVar("Declared", bound=Callable[..., Any])
NOT_COPIED_HEADERS = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)
# The prefix that names the pipeline of a path.
PIPELINE_PREFIX = "/p/{uid}"
_ANY_PIPELINE_PREFIX = re.compile(r"/p/[^/]+(?=/)")
# The handler attribute that holds the declaration. functools.wraps copies it.
_ATTRIBUTE = "memrelay_error_dialect"


@dataclass(frozen=True, slots=True)
class ErrorDialect:
    """How one API reports errors.

    `name` is the tag of its routes in OpenAPI. `model` and `schema` describe the body of an error.
    `convert` returns (status, body) for a problem. Requests below `prefixes` that match no route
    get this dialect too. `pipeline_parameter` and `pipeline_header` may name the pipeline of a
    path without a uid.
    """

    name: str
    model: str
    schema: Json
    convert: Callable[[Json], tuple[int, Json]]
    prefixes: tuple[str, ...]
    pipeline_parameter: str = ""
    pipeline_header: str = ""


DIALECTS = web.AppKey("dialects", tuple[ErrorDialect, ...])


def error_dialect(dialect: ErrorDialect) -> Callable[[Declared], Declared]:
    """Declare the error dialect of a handler."""

    def declare(handler: Declared) -> Declared:
        vars(handler)[_ATTRIBUTE] = dialect
        return handler

    return declare


def get_error_dialect(handler: object) -> ErrorDialect | None:
    """Return a handler's dialect, or None for problem JSON."""
    found = getattr(handler, _ATTRIBUTE, None)
    return found if isinstance(found, ErrorDialect) else None


def list_dialects(app: web.Application) -> tuple[ErrorDialect, ...]:
    """Return the dialects that the routes declare."""
    found = [get_error_dialect(route.handler) for route in app.router.routes()]
    return tuple({one.model: one for one in found if one is not None}.values())


@web.middleware
async def convert_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert problem JSON to the dialect of the request."""
    response = await handler(request)
    if not isinstance(response, web.Response) or response.content_type != PROBLEM_TYPE:
        return response
    dialect = _find_dialect(request)
    if dialect is None:
        return response
    assert isinstance(response.body, bytes)
    status, body = dialect.convert(orjson.loads(response.body))
    answer = web.Response(status=status, body=orjson.dumps(body), content_type="application/json")
    for name, value in response.headers.items():
        if name not in NOT_COPIED_HEADERS:
            answer.headers[name] = value
    return answer


def describe_faults(problem: Json) -> str:
    """Return a problem's detail, or all of its faults, for example `name is missing`."""
    return "; ".join(map(_describe_fault, problem.get("faults", ()))) or str(problem["detail"])


def _describe_fault(fault: dict[str, str]) -> str:
    """Return for example `name is missing`. Nested fields are separated by dots."""
    field = fault["pointer"].strip("/").replace("/", ".")
    rule = f"{fault['rule']}; {fault['suggestion']}" if fault["suggestion"] else fault["rule"]
    return f"{field} {rule}".strip()


def _find_dialect(request: web.Request) -> ErrorDialect | None:
    match = request.match_info
    if match.http_exception is None:
        return get_error_dialect(match.handler)
    path = _ANY_PIPELINE_PREFIX.sub(
        "", request.path.removeprefix(request.app[OPTIONS].base_path), count=1
    )
    by_prefix = {
        prefix: dialect
        for dialect in request.app[DIALECTS]
        for prefix in dialect.prefixes
        if path == prefix or path.startswith(f"{prefix}/")
    }
    return by_prefix[max(by_prefix, key=len)] if by_prefix else None
