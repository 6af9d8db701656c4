"""Routes of compatible APIs: REST APIs of other memory systems, on top of the same operations.

`CompatibleApi.serve` registers a handwritten handler. `serve_all` registers declared routes: each
`Route` states how a request becomes the input of its operation, and how the output becomes the
response.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, get_origin

from aiohttp import hdrs, web

from memrelay.memory.operations import Operation, all_operations, input_schema, json_type
from memrelay.web.api.answers import is_unchanged, json_response, parse_if_match, refuse_unknown
from memrelay.web.api.operation_routes import IN_HEADER
from memrelay.web.api.operations import call_operation, read_object, validate_input
from memrelay.web.auth.access import RouteHandler, get_caller, list_visible, requires
from memrelay.web.models.request_fields import Body, Json, ParsedInput, read_fields, set_at
from memrelay.web.models.shapes import make_body_shape, to_shape
from memrelay.web.openapi.route_docs import (
    CONFLICT,
    IDEMPOTENCY_HEADERS,
    IF_MATCH_HEADER,
    IF_NONE_MATCH_HEADER,
    documented,
    query_schema,
)
from memrelay.web.openapi.shapes import Reference
from memrelay.web.server.error_dialects import (
    PIPELINE_PREFIX,
    ErrorDialect,
    error_dialect,
    get_error_dialect,
)
from memrelay.web.server.errors import BadRequest, NotFound, Problem, Unprocessable
from memrelay.web.services import get_services

# Uids that an error lists.
MAX_LISTED = 20
# Fields of objects that every answer has and no request sets.
TIMES = ("createdAt", "updatedAt")
# A parameter in a path.
PATH_FIELD = re.compile(r"\{(\w+)\}")
UNCHANGED = {304: "The client has this version."}
OTHER_VERSION = {412: "If-Match names another version."}
INTEGER = re.compile(r"-?\d{1,15}")
# Begins the origin of a value from the path, which no other pointer does.
IN_PATH = "path"
BOOLEANS = {"true": True, "false": False}


async def find_pipeline(request: web.Request) -> str:
    """Return the uid of the request's pipeline, which is active and visible to the caller.

    The first that is given decides: the prefix /p/{uid}, the parameter or header of the route's
    dialect, the only pipeline of the credential, the only active pipeline that the caller sees.
    Raises BadRequest: none of them is given. NotFound: the pipeline is unknown, or the caller may
    not see it.
    """
    caller = get_caller(request)
    uid = _get_named(request) or ("" if caller.sees_all else _only(caller.pipelines))
    if not uid:
        seen = [one.deployed.uid for one in await list_visible(request)]
        uid = _only(seen)
        if not uid:
            raise BadRequest(
                "the request names no pipeline, and there is not exactly one to choose; begin the "
                f"path with {PIPELINE_PREFIX}{_describe_parameter(request)}. {_describe_uids(seen)}"
            )
    caller.check_pipeline(uid)
    await get_services(request).directory.find(uid)
    return uid


def _get_named(request: web.Request) -> str:
    """Return the uid that the request names, or ""."""
    dialect = get_error_dialect(request.match_info.handler)
    uid = request.match_info.get("uid", "")
    if not uid and dialect and dialect.pipeline_parameter:
        uid = request.query.get(dialect.pipeline_parameter, "")
    if not uid and dialect and dialect.pipeline_header:
        uid = request.headers.get(dialect.pipeline_header, "")
    return uid


def _only(uids: "frozenset[str] | list[str]") -> str:
    return next(iter(uids)) if len(uids) == 1 else ""


def _describe_uids(uids: Sequence[str]) -> str:
    """Return the uids that the caller sees."""
    if not uids:
        return "No pipeline that you may use is active"
    more = f" and {len(uids) - MAX_LISTED} more" if len(uids) > MAX_LISTED else ""
    return f"The uids are {', '.join(uids[:MAX_LISTED])}{more}"


def _describe_parameter(request: web.Request) -> str:
    dialect = get_error_dialect(request.match_info.handler)
    if dialect is None or not dialect.pipeline_parameter:
        return ""
    return f", or send ?{dialect.pipeline_parameter}=UID"


@dataclass(frozen=True, slots=True)
class CompatibleApi:
    """A REST API of another memory system.

    `dialect` is the shape of its errors. `read_errors` and `write_errors` describe the statuses of
    all routes that read, or that change something. `query` describes parameters of all routes.
    `prefixes` begin the forms of each path, and `ends` end them. `is_for_agents`: callers with a
    JWT reach the routes too.
    """

    dialect: ErrorDialect
    read_errors: Mapping[int, str]
    write_errors: Mapping[int, str]
    query: Mapping[str, str] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ("", PIPELINE_PREFIX)
    ends: tuple[str, ...] = ("", "/")
    is_for_agents: bool = False

    def serve(
        self,
        routes: web.RouteTableDef,
        method: str,
        path: str,
        operation: str,
        responses: Mapping[int, str],
        **options: Any,
    ) -> Callable[[RouteHandler], RouteHandler]:
        """Register a handler at each form of a path.

        The operation decides the scope, the common errors, and whether a call may have an
        idempotency key. `scopes`, `errors` and `ends` replace them. Other options are the fields of
        `RouteDocs`.
        """
        called = all_operations()[operation]
        scopes = options.pop("scopes", (called.access,))
        errors = options.pop("errors", self.write_errors if called.mutates else self.read_errors)
        forms = product(self.prefixes, options.pop("ends", self.ends))
        idempotency = IDEMPOTENCY_HEADERS if called.mutates else {}
        docs = options | {
            "query": dict(self.query) | options.get("query", {}),
            "headers": idempotency | options.get("headers", {}),
        }

        def declare(handler: RouteHandler) -> RouteHandler:
            guarded = requires(*scopes, is_for_agents=self.is_for_agents)(handler)
            documented(dict(responses) | dict(errors), **docs)(guarded)
            error_dialect(self.dialect)(guarded)
            for prefix, end in forms:
                form = prefix + path + end
                # GET also answers HEAD.
                is_get = method == hdrs.METH_GET
                register = routes.get(form) if is_get else routes.route(method, form)
                register(guarded)
            return guarded

        return declare


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a request made: the pipeline, the input, and the output."""

    request: web.Request
    uid: str
    input: Json
    output: Any
    # Whether the body had the field that selects the second form of the body.
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A route. The parameters in its path are fields of the operation, or `path_fields` maps them.

    `query` maps a parameter to (field, description), and `headers` a header likewise. `fixed` are
    values that the path implies. `shape` is the type of the JSON response, None if it is empty. By
    default it selects fields of the output, or of its items if it is a list. `convert` returns
    other JSON, and `answer` another response. `check` rejects a body. `before`, and then `after` or
    `failed`, send live events about the call.
    """

    method: str
    path: str
    operation: str
    summary: str
    shape: Any = None
    status: int = 200
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    description: str = "The answer."
    fixed: Json = field(default_factory=dict)
    path_fields: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    headers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    body: Body | None = None
    convert: Callable[[Call], Any] | None = None
    answer: Callable[[Call], web.Response] | None = None
    check: Callable[[web.Request, Json], None] | None = None
    before: Callable[[web.Request, str, Json], None] | None = None
    after: Callable[[Call], None] | None = None
    failed: Callable[[web.Request, str, Problem], None] | None = None

    def respond(self, call: Call) -> web.Response:
        """Return the response to a call that succeeded."""
        if self.answer is not None:
            return self.answer(call)
        if self.shape is None:
            return web.Response(status=self.status)
        if self.convert is not None:
            return json_response(self.convert(call), self.status)
        output = call.output["items"] if get_origin(self.shape) is list else call.output
        return json_response(to_shape(self.shape, output), self.status)

    @property
    def successes(self) -> Mapping[int, str]:
        """The statuses of success with their descriptions."""
        return {self.status: self.description} | dict(self.other_statuses)

    @property
    def name(self) -> str:
        """The unique name of the route: `post_kvstore_kv`."""
        return re.sub(r"\W+", "_", f"{self.method.lower()}{self.path}").strip("_")


def first_of(shape: Any, field: str = "items") -> Callable[[Call], Any]:
    """Return a conversion of the only object in a field of the output to a shape."""
    return lambda call: to_shape(shape, call.output[field][0])


def answer_file(call: Call) -> web.Response:
    """Return an answer with a text as a file named after the id."""
    name = f'attachment; filename="{call.output["id"]}.json"'
    return web.Response(
        text=call.output["text"],
        content_type="application/json",
        headers={hdrs.CONTENT_DISPOSITION: name},
    )


def _document(route: Route, operation: Operation) -> Json:
    """Return the fields of `RouteDocs` that `CompatibleApi.serve` does not derive."""
    fields, required = input_schema(operation)["properties"], input_schema(operation)["required"]
    shape = route.shape | Reference if operation.access == "write" else route.shape
    query = {name: target for name, (target, _) in route.query.items()}
    found: Json = {
        "ident": f"handlers.{route.name}",
        "query": {name: text for name, (_, text) in route.query.items()},
        "query_schemas": {name: query_schema(fields[target]) for name, target in query.items()},
        "required_query": tuple(name for name, target in query.items() if target in required),
        "headers": {name: text for name, (_, text) in route.headers.items()},
        "schemas": {} if route.shape is None else dict.fromkeys(route.successes, shape),
    }
    if route.body is not None:
        elsewhere = {*PATH_FIELD.findall(route.path), *route.fixed, *query.values()}
        found |= {
            "body": route.body.example,
            "body_schema": make_body_shape(route.name, operation.input, route.body),
            "needs_body": bool({*required} - elsewhere),
        }
    return found


def _describe_versions(operation: Operation) -> tuple[dict[int, str], dict[str, str]]:
    """Return the statuses other than success that only some routes have, and their headers."""
    statuses, headers = dict[int, str](), dict[str, str]()
    if IN_HEADER in input_schema(operation)["properties"]:
        statuses |= OTHER_VERSION
        headers |= IF_MATCH_HEADER
    if _has_etag(operation):
        statuses |= UNCHANGED
        headers |= IF_NONE_MATCH_HEADER
    if operation.mutates and operation.access != "delete":
        statuses |= CONFLICT
    return statuses, headers


def _has_etag(operation: Operation) -> bool:
    """Return whether an operation reads an object with a version."""
    has_fields = dataclasses.is_dataclass(operation.output)
    names = [one.name for one in dataclasses.fields(operation.output)] if has_fields else []
    return not operation.mutates and "version" in names


def serve_all(api: CompatibleApi, routes: web.RouteTableDef, declared: Iterable[Route]) -> None:
    """Register each route at all forms of its path."""
    for one in declared:
        operation = all_operations()[one.operation]
        handler = _make_handler(api, one, operation)
        handler.__name__, handler.__doc__ = one.name, one.summary
        # A field in a path may have any character.
        path = PATH_FIELD.sub(r"{\1:[^/]+}", one.path)
        statuses, headers = _describe_versions(operation)
        docs = _document(one, operation)
        docs["headers"] |= headers
        api.serve(routes, one.method, path, one.operation, dict(one.successes) | statuses, **docs)(
            handler
        )


def _make_handler(api: CompatibleApi, route: Route, operation: Operation) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        parsed, is_batch = await _read(request, api, route)
        uid = await find_pipeline(request)
        if route.before is not None:
            route.before(request, uid, parsed.values)
        try:
            output = await call_operation(request, operation.name, uid, parsed.values)
        except Problem as problem:
            if route.failed is not None:
                route.failed(request, uid, problem)
            raise _locate_faults(problem, parsed) from problem
        call = Call(request, uid, parsed.values, output, is_batch)
        if route.after is not None:
            route.after(call)
        return _add_etag(call, route.respond(call))

    return handle


async def _read(request: web.Request, api: CompatibleApi, route: Route) -> tuple[ParsedInput, bool]:
    """Return (the input, whether the body has its second form). Raises Problem."""
    operation = all_operations()[route.operation]
    properties = input_schema(operation)["properties"]
    kinds = {name: json_type(properties[name]) for name, _ in route.query.values()}
    lists = [name for name, (target, _) in route.query.items() if kinds[target] == "array"]
    refuse_unknown(request, (*route.query, api.dialect.pipeline_parameter), lists)
    parsed = ParsedInput()
    is_batch = False
    if route.body is not None:
        is_batch = await _read_body(request, route, route.body, parsed)
    parsed.values |= route.fixed
    for name in PATH_FIELD.findall(route.path):
        target = route.path_fields.get(name, name)
        set_at(parsed.values, target, request.match_info[name])
        parsed.origins[f"/{target}"] = f"{IN_PATH}/{name}"
    for name, (target, _) in route.query.items():
        parsed.origins[f"/{target}"] = f"/{name}"
        if name in request.query:
            parsed.values[target] = _convert(kinds[target], request.query.getall(name))
    for name, (target, _) in route.headers.items():
        if name in request.headers:
            parsed.values[target] = request.headers[name]
    if IN_HEADER in properties and (versions := parse_if_match(request, hdrs.IF_MATCH)):
        parsed.values[IN_HEADER] = list(versions)
    if parsed.faults:
        _raise_all(operation, parsed)
    return parsed, is_batch


async def _read_body(request: web.Request, route: Route, body: Body, parsed: ParsedInput) -> bool:
    value = await read_object(request)
    if route.check is not None:
        route.check(request, value)
    if body.whole:
        parsed.values[body.whole] = value
        parsed.origins[f"/{body.whole}"] = ""
        return False
    value = body.without_read_only(value)
    is_batch = bool(body.batch_key) and body.batch_key in value
    read_fields(body.batch if is_batch else body.fields, value, parsed)
    return is_batch


def _convert(kind: str, texts: list[str]) -> Any:
    """Return the value of a parameter. The operation rejects a text of another type."""
    text = texts[0]
    if kind == "array":
        return [one for one in texts if one]
    if kind == "integer" and INTEGER.fullmatch(text):
        return int(text)
    return BOOLEANS.get(text, text) if kind == "boolean" else text


def _raise_all(operation: Operation, parsed: ParsedInput) -> None:
    """Raise the faults of the request together with those of the operation's input."""
    try:
        validate_input(operation, parsed.values)
    except Unprocessable as refused:
        known = {fault["pointer"] for fault in parsed.faults}
        found = _relocate(refused.members.get("faults", []), parsed)
        parsed.faults += [fault for fault in found if fault["pointer"] not in known]
    count = len(parsed.faults)
    raise Unprocessable(
        f"the request has {count} error{'s' * (count > 1)}",
        faults=sorted(parsed.faults, key=lambda fault: str(fault["pointer"])),
    )


def _locate_faults(problem: Problem, parsed: ParsedInput) -> Problem:
    """Return a problem whose faults have the names of the request.

    No object has an invalid id, so that a fault in the path is a NotFound.
    """
    if "faults" not in problem.members:
        return problem
    faults = problem.members["faults"] = _relocate(problem.members["faults"], parsed)
    in_path = [fault for fault in faults if fault["pointer"].startswith(IN_PATH)]
    return NotFound(in_path[0]["rule"]) if in_path else problem


def _relocate(faults: list[Json], parsed: ParsedInput) -> list[Json]:
    return [fault | {"pointer": parsed.locate(fault["pointer"])} for fault in faults]


def _add_etag(call: Call, response: web.Response) -> web.Response:
    """Return the response with the version of the object in it, or 304 if the client has it."""
    output = call.output
    if not isinstance(output, dict) or "version" not in output:
        return response
    etag = f'"{output["version"]}"'
    if is_unchanged(call.request, output["version"]):
        return web.Response(status=304, headers={hdrs.ETAG: etag})
    response.headers[hdrs.ETAG] = etag
    return response
