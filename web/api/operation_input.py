"""The input of an operation from a request: path, query, body and If-Match, checked as a whole,
with every fault at once."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import orjson
from aiohttp import hdrs, web
from pydantic import ValidationError

from memrelay.memory.operation import Operation, json_type
from memrelay.pipelines.json_text import parse_object, too_many_keys
from memrelay.pipelines.report import Report
from memrelay.pipelines.shape import tell
from memrelay.web.api.answers import etags_of, refuse_unknown
from memrelay.web.api.operation_routes import IN_HEADER, IN_QUERY, STORE, OperationRoute
from memrelay.web.server.errors import BadRequest, Unprocessable
from memrelay.web.server.request_body import read_json_body
from memrelay.web.server.services import services_of


async def read_input(request: web.Request, operation: Operation, place: OperationRoute) -> bytes:
    """The input as JSON. Raises BadRequest, and Unprocessable with `faults`."""
    kinds = _query_kinds(operation, place)
    refuse_unknown(
        request, (*kinds, STORE), [name for name, kind in kinds.items() if kind == "array"]
    )
    report = Report()
    given = _query(request, kinds, report)
    if place.method != "GET":
        given |= await _body(request, operation, place, report)
    given |= {name: request.match_info[name] for name in place.path_fields}
    if place.has_if_match and (versions := etags_of(request, hdrs.IF_MATCH)):
        given[IN_HEADER] = versions
    return _checked(operation, given, report, is_text=place.method in IN_QUERY)


@cache
def _query_kinds(operation: Operation, place: OperationRoute) -> dict[str, str]:
    """The parameters, with their JSON types."""
    properties = operation.adapter.json_schema()["properties"] if place.query_fields else {}
    return {name: json_type(properties[name]) for name in place.query_fields}


def _query(request: web.Request, kinds: dict[str, str], report: Report) -> dict[str, Any]:
    """A list's parameter may be given several times, any other once; an object's is JSON. What is
    empty asks for nothing."""
    given: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind == "array":
            given[name] = [value for value in request.query.getall(name, []) if value]
        elif name in request.query:
            value = request.query[name]
            given[name] = parse_object(value, (name,), report) if kind == "object" else value
    return given


async def _body(
    request: web.Request, operation: Operation, place: OperationRoute, report: Report
) -> dict[str, Any]:
    """The object in the body; a field that there is not is told with the names that there are, or
    where it belongs."""
    value = await read_object(request, place.body_fields)
    for name in value.keys() - set(place.body_fields):
        rule = f"{operation.name} takes no such field here"
        if name in place.query_fields:
            report.error((name,), rule, f"it stands in the URL: ?{name}=...")
        else:
            report.unknown((name,), rule, name, place.body_fields or place.query_fields)
    return {name: held for name, held in value.items() if name in place.body_fields}


async def read_object(request: web.Request, names: Sequence[str] = ()) -> dict[str, Any]:
    """The object in the body, which has these fields; {} where it is empty. Raises BadRequest and
    Unprocessable."""
    body, most = await read_json_body(request), services_of(request).options.json_keys
    if too_many_keys(body, most):
        raise Unprocessable(
            f"the JSON has more than {most} keys, which is what web.max_json_keys allows"
        )
    try:
        value = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is no JSON: {error.msg}") from error
    if not isinstance(value, dict):
        raise Unprocessable(f"the body is a JSON object{' with ' * bool(names)}{', '.join(names)}")
    return value


def checked_input(operation: Operation, given: dict[str, Any]) -> bytes:
    """An input that was read otherwise, as JSON with its defaults. Raises Unprocessable."""
    return _checked(operation, given, Report(), is_text=False)


def _checked(
    operation: Operation, given: dict[str, Any], report: Report, *, is_text: bool
) -> bytes:
    """The input with its defaults. Raises Unprocessable."""
    try:
        if is_text:
            asked = operation.adapter.validate_python(given)
        else:
            asked = operation.adapter.validate_json(orjson.dumps(given), strict=True)
    except ValidationError as error:
        tell(error, given, (), report)
    except orjson.JSONEncodeError as error:
        raise Unprocessable(f"the input cannot be taken: {error}") from error
    if report.errors:
        count = len(report.errors)
        raise Unprocessable(
            f"the input of {operation.name} has {count} fault{'s' * (count > 1)}; `faults` says which",
            faults=[fault.as_json() for fault in report.errors],
        )
    return orjson.dumps(asked)
