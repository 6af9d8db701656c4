"""The operations over HTTP: one handler for all, made from what each declares."""

from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from memrelay.bus.errors import CallFailed, NoAnswer
from memrelay.bus.request import BROKEN, KEY_REUSED, UNAVAILABLE, NewCall
from memrelay.memory.errors import NotThere, VersionDiffers
from memrelay.memory.operation import Operation, all_operations
from memrelay.web.api.answers import is_known, json_response
from memrelay.web.api.messages import producer_id
from memrelay.web.api.operation_input import read_input
from memrelay.web.api.operation_routes import IN_PATH, STORE, route_of
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.server.errors import (
    KeyReused,
    NotAnswered,
    NotFound,
    PreconditionFailed,
    Problem,
    Unavailable,
    Unprocessable,
)
from memrelay.web.server.services import services_of

NOBODY = "http"  # who acts where no key was needed
ACTION, MADE = "action", "created"  # of a create that may find what it would make
PROBLEMS: dict[str, type[Problem]] = {
    NotThere.code: NotFound,
    VersionDiffers.code: PreconditionFailed,
    BROKEN: Problem,
    UNAVAILABLE: Unavailable,
    KEY_REUSED: KeyReused,
}


def routes() -> list[web.AbstractRouteDef]:
    """One for each operation."""
    return [
        web.route(place.method, place.path, handler_of(operation))
        if place.method != "GET"
        else web.get(place.path, handler_of(operation))
        for operation in all_operations().values()
        for place in (route_of(operation),)
    ]


def handler_of(operation: Operation) -> Handler:
    """What answers to an operation's route."""
    place = route_of(operation)

    @needs(operation.access)
    async def handle(request: web.Request) -> web.Response:
        parts, uid = services_of(request), request.match_info["uid"]
        await parts.directory.find(uid)
        data = await read_input(request, operation, place)
        call = NewCall(
            uid,
            operation.name,
            data,
            operation.mutates,
            request.query.get(STORE, ""),
            caller_of(request).name or NOBODY,
            producer_id(request) if operation.mutates else "",
        )
        return _told(request, operation, await answer_to(request, call))

    return handle


async def answer_to(request: web.Request, call: NewCall) -> Any:
    """What the operation gives. Raises what its refusal is over HTTP, NotAnswered, and a fault of
    the bus."""
    parts = services_of(request)
    try:
        answer = await parts.requester.call(call, parts.options.call_timeout_s)
    except NoAnswer as error:
        kept = (
            "; it may still be done: with the same Idempotency-Key you get its answer"
            if call.mutates
            else ""
        )
        why = f", for the pipeline is paused: {error.paused}" if error.paused else ""
        raise NotAnswered(
            f"{call.op} was not answered within {parts.options.call_timeout_s:g} s{why}{kept}"
        ) from error
    except CallFailed as error:
        raise Problem(str(error)) from error
    if "error" in answer:
        raise PROBLEMS.get(answer["error"]["code"], Unprocessable)(answer["error"]["detail"])
    return answer["output"]


def _told(request: web.Request, operation: Operation, output: Any) -> web.Response:
    if output is None:
        return web.Response(status=204)
    etag = {hdrs.ETAG: f'"{output["version"]}"'} if "version" in output else {}
    if etag and is_known(request, output["version"]):
        return web.Response(status=304, headers=etag)
    is_made = operation.verb == "create" and output.get(ACTION, MADE) == MADE
    response = json_response(output, 201 if is_made else 200, **etag)
    if is_made:
        store = f"?{request.query_string}" if STORE in request.query else ""
        ident = next(output[name] for name in IN_PATH if name in output)
        response.headers[hdrs.LOCATION] = f"{request.path}/{ident}{store}"
    return response
