"""POST /v1/pipelines/{uid}/inputs/replay: run kept inputs again."""

from dataclasses import fields
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from memrelay.pipelines.report import Report
from memrelay.pipelines.rules import report_validation_error
from memrelay.web.api.answers import json_response
from memrelay.web.api.input_replay import (
    InvalidReplay,
    NotRemembered,
    ReplayRequest,
    replay_page,
)
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import InputReplay, ReplayedInputs
from memrelay.web.server.errors import Conflict, Unprocessable
from memrelay.web.services import get_services

routes = web.RouteTableDef()
PATH = "/v1/pipelines/{uid}/inputs/replay"
NAMES = tuple(field.name for field in fields(ReplayRequest))
ADAPTER: TypeAdapter[InputReplay] = TypeAdapter(InputReplay)


@routes.post(PATH)
@documented(
    {
        200: "The inputs of the page are in the input of the pipeline. There are more while "
        "`next_cursor` is not null.",
        404: "The pipeline does not exist.",
        409: "An input has no idempotency key that is still remembered. Nothing of the page has "
        "run; use `as_new`.",
        422: "The body has faults, or the filter reached a bound.",
    },
    body="The inputs to run again. Call it again with `cursor` and `key` for the next page.",
    body_schema=InputReplay,
    schemas={200: ReplayedInputs},
)
@requires("admin")
async def replay(request: web.Request) -> web.Response:
    """Run a page of kept inputs again: under their idempotency keys, or as new inputs.

    Returns {key, replayed, next_cursor}. A client that stops continues with both of them.
    """
    uid, services = request.match_info["uid"], get_services(request)
    wanted = _parse_request(await read_object(request, NAMES))

    async def list_inputs(given: dict[str, Any]) -> dict[str, Any]:
        page: dict[str, Any] = await call_operation(request, "inputs.list", uid, given)
        return page

    try:
        page = await replay_page(uid, wanted, list_inputs, services.requester.ingress.append_all)
    except NotRemembered as fault:
        raise Conflict(f"{fault} (`as_new`: true)") from fault
    except InvalidReplay as fault:
        raise Unprocessable(str(fault)) from fault
    return json_response(page._asdict())


def _parse_request(body: dict[str, Any]) -> ReplayRequest:
    """Check the types of the body's fields. Raises Unprocessable."""
    report = Report()
    try:
        return ReplayRequest(**ADAPTER.validate_python(body, strict=True))
    except ValidationError as error:
        report_validation_error(error, body, (), report)
    faults = [fault.as_json() for fault in report.errors]
    raise Unprocessable(
        "; ".join(f"{one['pointer']} {one['rule']}" for one in faults), faults=faults
    )
