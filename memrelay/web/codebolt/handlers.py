"""Handlers of the declared routes."""

import re
from collections.abc import Iterable
from typing import Any

from aiohttp import hdrs, web

from memrelay.memory.operations import Operation, all_operations, input_schema, json_type
from memrelay.web.api.answers import is_unchanged, parse_if_match, refuse_unknown
from memrelay.web.api.operation_routes import IN_HEADER
from memrelay.web.api.operations import call_operation, read_object, validate_input
from memrelay.web.api.path_forms import serve
from memrelay.web.api.pipeline_choice import find_pipeline
from memrelay.web.auth.access import requires
from memrelay.web.codebolt.declaration import PATH_FIELD, Body, Call, Route
from memrelay.web.codebolt.errors import CODEBOLT
from memrelay.web.codebolt.fields import Given, Json, read_fields, set_at
from memrelay.web.codebolt.route_documents import document_route
from memrelay.web.openapi.route_docs import documented
from memrelay.web.server.error_dialects import error_dialect
from memrelay.web.server.errors import NotFound, Problem, Unprocessable

INTEGER = re.compile(r"-?\d{1,15}")
# Begins the origin of a value from the path, which no other pointer does.
IN_PATH = "path"
BOOLEANS = {"true": True, "false": False}


def serve_all(routes: web.RouteTableDef, declared: Iterable[Route]) -> None:
    """Register each route at all forms of its path."""
    for one in declared:
        operation = all_operations()[one.operation]
        handler = _make_handler(one, operation)
        handler.__name__, handler.__doc__ = one.name, one.summary
        documented(**document_route(one, operation))(handler)
        guarded = error_dialect(CODEBOLT)(requires(operation.access)(handler))
        # A field in a path may have any character.
        serve(routes, one.method, PATH_FIELD.sub(r"{\1:[^/]+}", one.path))(guarded)


def _make_handler(route: Route, operation: Operation) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        given, is_batch = await _read(request, route, operation)
        uid = await find_pipeline(request)
        if route.before is not None:
            route.before(request, uid, given.values)
        try:
            output = await call_operation(request, operation.name, uid, given.values)
        except Problem as problem:
            if route.failed is not None:
                route.failed(request, uid, problem)
            raise _locate_faults(problem, given) from problem
        call = Call(request, uid, given.values, output, is_batch)
        if route.after is not None:
            route.after(call)
        return _add_etag(call, route.answer(call))

    return handle


async def _read(request: web.Request, route: Route, operation: Operation) -> tuple[Given, bool]:
    """Return (the input, whether the body has its second form). Raises Problem."""
    properties = input_schema(operation)["properties"]
    kinds = {name: json_type(properties[name]) for name, _ in route.query.values()}
    lists = [name for name, (target, _) in route.query.items() if kinds[target] == "array"]
    refuse_unknown(request, (*route.query, CODEBOLT.pipeline_parameter), lists)
    given = Given()
    is_batch = False
    if route.body is not None:
        is_batch = await _read_body(request, route, route.body, given)
    given.values |= route.fixed
    for name in PATH_FIELD.findall(route.path):
        target = route.path_fields.get(name, name)
        set_at(given.values, target, request.match_info[name])
        given.origins[f"/{target}"] = f"{IN_PATH}/{name}"
    for name, (target, _) in route.query.items():
        given.origins[f"/{target}"] = f"/{name}"
        if name in request.query:
            given.values[target] = _convert(kinds[target], request.query.getall(name))
    for name, (target, _) in route.headers.items():
        if name in request.headers:
            given.values[target] = request.headers[name]
    if IN_HEADER in properties and (versions := parse_if_match(request, hdrs.IF_MATCH)):
        given.values[IN_HEADER] = list(versions)
    if given.faults:
        _raise_all(operation, given)
    return given, is_batch


async def _read_body(request: web.Request, route: Route, body: Body, given: Given) -> bool:
    value = await read_object(request)
    if route.check is not None:
        route.check(request, value)
    if body.whole:
        given.values[body.whole] = value
        given.origins[f"/{body.whole}"] = ""
        return False
    value = body.without_read_only(value)
    is_batch = bool(body.batch_key) and body.batch_key in value
    read_fields(body.batch if is_batch else body.fields, value, given)
    return is_batch


def _convert(kind: str, texts: list[str]) -> Any:
    """Return the value of a parameter. The operation rejects a text of another type."""
    text = texts[0]
    if kind == "array":
        return [one for one in texts if one]
    if kind == "integer" and INTEGER.fullmatch(text):
        return int(text)
    return BOOLEANS.get(text, text) if kind == "boolean" else text


def _raise_all(operation: Operation, given: Given) -> None:
    """Raise the faults of the request together with those of the operation's input."""
    try:
        validate_input(operation, given.values)
    except Unprocessable as refused:
        known = {fault["pointer"] for fault in given.faults}
        found = _relocate(refused.members.get("faults", []), given)
        given.faults += [fault for fault in found if fault["pointer"] not in known]
    count = len(given.faults)
    raise Unprocessable(
        f"the request has {count} error{'s' * (count > 1)}",
        faults=sorted(given.faults, key=lambda fault: str(fault["pointer"])),
    )


def _locate_faults(problem: Problem, given: Given) -> Problem:
    """Return a problem whose faults have the names of the request.

    No object has an invalid id, so that a fault in the path is a NotFound.
    """
    if "faults" not in problem.members:
        return problem
    faults = problem.members["faults"] = _relocate(problem.members["faults"], given)
    in_path = [fault for fault in faults if fault["pointer"].startswith(IN_PATH)]
    return NotFound(in_path[0]["rule"]) if in_path else problem


def _relocate(faults: list[Json], given: Given) -> list[Json]:
    return [fault | {"pointer": given.locate(fault["pointer"])} for fault in faults]


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
