"""The operations over HTTP: one generated handler per operation.

The input comes from the path, the query string, the body, and If-Match. It is validated as a
whole, and the response lists every fault.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from msgspec.structs import replace
from multidict import istr
from pydantic import ValidationError

from memrelay.bus.errors import CallFailed, NoAnswer
from memrelay.bus.request import BROKEN, KEY_REUSED, SNAPSHOT_PENDING, UNAVAILABLE, NewCall
from memrelay.memory.endpoint_rules import is_reference
from memrelay.memory.errors import (
    Denied,
    NameTaken,
    RecordNotFound,
    Refused,
    SealBroken,
    SealKeyMissing,
    TooManyKeys,
    TooOld,
    ValueTooLarge,
    VersionConflict,
)
from memrelay.memory.operations import (
    AS_OF,
    RECEIPT,
    STORE,
    Operation,
    all_operations,
    input_schema,
    is_dry_run,
    json_type,
    selects_store,
)
from memrelay.memory.records.data import check_integers
from memrelay.memory.stopped_writes import read_stopped
from memrelay.pipelines.json_text import parse_as, too_many_keys
from memrelay.pipelines.report import Report
from memrelay.pipelines.rules import report_validation_error
from memrelay.web.api.answers import (
    check_absence,
    is_unchanged,
    json_response,
    parse_if_match,
    refuse_unknown,
    requires_absence,
)
from memrelay.web.api.messages import parse_message_id
from memrelay.web.api.operation_routes import (
    ACTION,
    AS_OF_HEADER,
    IF_ABSENT,
    IN_HEADER,
    IN_PATH,
    IN_QUERY,
    OperationRoute,
    hide_output,
    route_of,
    scope_of_command,
    scopes_of,
)
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.auth.authorizer import Caller, make_via
from memrelay.web.auth.identity import identity_of, refuse_vouched
from memrelay.web.auth.revocation import end_when_revoked
from memrelay.web.server.browser_guard import FETCH_SITE
from memrelay.web.server.errors import (
    BadRequest,
    CallTimeout,
    Conflict,
    Gone,
    KeyReused,
    LimitReached,
    NotAllowed,
    NotFound,
    NotYet,
    PreconditionFailed,
    Problem,
    SealedValueChanged,
    TooLarge,
    Unavailable,
    Unprocessable,
    WriteStopped,
)
from memrelay.web.server.request_body import read_json_body
from memrelay.web.services import get_services

# The actors in the audit trail if no key was needed: a program, and the console. Browsers mark the
# requests of a page's scripts to the server of the page.
NO_KEY_ACTOR, CONSOLE_ACTOR = "http", "console"
# The built-in store of the operations that a JWT reaches. Its callers have no access `admin`.
AGENT_STORE = "stores"
# The operations whose fields may be references to secrets.
ENDPOINTS, REFERENCES = "endpoints", ("url", "secret")
# The state that a call with `as_of` has read.
READ_STATE = web.RequestKey("read_state", dict)
# The receipt that a call has left.
RECEIPT_ID = web.RequestKey("receipt_id", str)
RECEIPT_HEADER = istr("Memrelay-Receipt")
# The value of ACTION for a new record.
CREATED = "created"
# Hexadecimal digits of the id of an agent's call.
CALL_ID_DIGITS = 32
PROBLEMS: dict[str, type[Problem]] = {
    RecordNotFound.code: NotFound,
    VersionConflict.code: PreconditionFailed,
    TooOld.code: Gone,
    SNAPSHOT_PENDING: NotYet,
    Denied.code: NotAllowed,
    ValueTooLarge.code: TooLarge,
    TooManyKeys.code: LimitReached,
    NameTaken.code: Conflict,
    BROKEN: Problem,
    UNAVAILABLE: Unavailable,
    KEY_REUSED: KeyReused,
}


def make_routes() -> list[web.AbstractRouteDef]:
    """Return one route per operation. GET routes also answer HEAD."""
    found: list[web.AbstractRouteDef] = []
    for operation in all_operations().values():
        route, handler = route_of(operation), make_handler(operation)
        if route.method == hdrs.METH_GET:
            found.append(web.get(route.pattern, handler))
        else:
            found.append(web.route(route.method, route.pattern, handler))
    return found


def make_handler(operation: Operation) -> Handler:
    """Return the handler of an operation's route."""
    route, has_store = route_of(operation), selects_store(operation)
    has_references = operation.noun == ENDPOINTS

    @requires(*scopes_of(operation), is_for_agents=operation.store == AGENT_STORE)
    async def handle(request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        await get_services(request).directory.find(uid)
        data = await _read_input(request, operation, route)
        if operation.commands is not None:
            check_command(get_caller(request), operation, orjson.loads(data))
        if has_references:
            _check_references(request, uid, orjson.loads(data))
        store = request.query.get(STORE, "") if has_store else ""
        call = _make_call(request, operation, uid, data, store)
        if operation.takes_as_of and (as_of := request.query.get(AS_OF)) is not None:
            call = replace(call, as_of=as_of)
        output = hide_stored_text(request, operation, await send_call(request, call))
        return _make_response(request, operation, output, is_dry=is_dry_run(operation, data))

    return handle


async def call_operation(
    request: web.Request,
    name: str,
    uid: str,
    input: dict[str, Any],
    store: str = "",
    *,
    timeout_s: float | None = None,
    as_of: str = "",
) -> Any:
    """Call an operation in a pipeline and return its output. Raises Problem.

    `store` is a store of the pipeline, by default that of the operation. `timeout_s` is by default
    that of the settings. `as_of` reads the state of a past time.

    A caller without the scope read gets only ids and the version from a write.
    """
    operation = all_operations()[name]
    caller = get_caller(request)
    check_command(caller, operation, input)
    caller.check_any(scopes_of(operation), uid)
    await get_services(request).directory.find(uid)
    if operation.noun == ENDPOINTS:
        _check_references(request, uid, input)
    call = _make_call(request, operation, uid, validate_input(operation, input), store)
    output = await send_call(request, replace(call, as_of=as_of), timeout_s)
    return hide_stored_text(request, operation, output)


def _make_call(
    request: web.Request, operation: Operation, uid: str, data: bytes, store: str
) -> NewCall:
    """Return the call of a request's caller. `data` is the validated input as JSON."""
    return NewCall(
        uid,
        operation.name,
        data,
        operation.mutates,
        store,
        get_caller(request).name or _name_keyless(request),
        _parse_call_id(request) if operation.mutates else "",
        via=make_via(get_caller(request), "rest"),
    )


def _name_keyless(request: web.Request) -> str:
    is_from_page = request.headers.get(FETCH_SITE) == "same-origin"
    return CONSOLE_ACTOR if is_from_page else NO_KEY_ACTOR


def _check_references(request: web.Request, uid: str, input: Mapping[str, Any]) -> None:
    """Check that a caller may name the secrets of an endpoint, as in a bundle. Raises NotAllowed.

    Otherwise a limited key could send the secret of another pipeline.
    """
    given = [str(input.get(name) or "") for name in REFERENCES]
    references = [one for one in given if is_reference(one)]
    get_caller(request).check_secrets("endpoint", references, uid, get_services(request).secrets)


def check_command(caller: Caller, operation: Operation, input: Mapping[str, Any]) -> None:
    """Check the scope of a tool call's command. Raises NotAllowed: the scope is missing."""
    if needed := scope_of_command(operation, input):
        caller.check(needed)


def _parse_call_id(request: web.Request) -> str:
    """Return the id under which the pipeline remembers a call, "" for none. Raises BadRequest.

    Agents with JWTs do not know of each other, so each agent has separate ids.
    """
    given, caller = parse_message_id(request), get_caller(request)
    if not given or caller.token is None:
        return given
    return sha256(orjson.dumps([caller.name, given])).hexdigest()[:CALL_ID_DIGITS]


async def send_call(request: web.Request, call: NewCall, timeout_s: float | None = None) -> Any:
    """Send a call to the pipeline's owner and return its output.

    An internal value is sealed before the call, and opened afterwards. Raises CallTimeout, an error
    of the bus, the Problem for an error of the operation, or WriteStopped.
    """
    _check_hidden_list(request, call)
    services = get_services(request)
    keys, limit_s = services.options.seal_keys, timeout_s or services.options.call_timeout_s
    try:
        data = await keys.seal_input(call.uid, call.op, call.data, call.producer_id)
        output = await _get_output(request, replace(call, data=data), limit_s)
        if call.mutates and read_stopped(output) is not None:
            raise WriteStopped(output)
        return await keys.open_output(call.uid, call.op, output)
    except SealKeyMissing as error:
        raise Unavailable(str(error)) from error
    except SealBroken as error:
        raise SealedValueChanged(str(error)) from error
    except Refused as error:
        raise PROBLEMS.get(error.code, Unprocessable)(str(error)) from error


def _check_hidden_list(request: web.Request, call: NewCall) -> None:
    """Raise NotAllowed if a list of internal entries is not for an administrator."""
    if call.op == "items.list" and not orjson.loads(call.data)["in_context"]:
        get_caller(request).check("admin")


async def _get_output(request: web.Request, call: NewCall, timeout_s: float) -> Any:
    services = get_services(request)
    try:
        async with end_when_revoked(request):
            answer = await services.requester.call(call, timeout_s)
    except NoAnswer as error:
        reason = f" because the pipeline is paused: {error.paused}" if error.paused else ""
        hint = (
            "; it may still run. Retry with the same Idempotency-Key to get its answer"
            if call.mutates
            else ""
        )
        raise CallTimeout(
            f"{call.op} was not answered within {timeout_s:g} s{reason}{hint}"
        ) from error
    except CallFailed as error:
        raise Problem(str(error)) from error
    if "error" not in answer:
        if "as_of" in answer:
            request[READ_STATE] = answer["as_of"]
        elif RECEIPT in answer:
            request[RECEIPT_ID] = answer[RECEIPT]["id"]
        return answer["output"]
    code, detail = answer["error"]["code"], answer["error"]["detail"]
    if code == KEY_REUSED and get_caller(request).token is not None:
        detail = detail.replace(call.producer_id, parse_message_id(request))
    raise PROBLEMS.get(code, Unprocessable)(detail, **_faults_of(answer["error"]))


def _faults_of(error: dict[str, Any]) -> dict[str, Any]:
    """Return the member `faults` of a problem, none if the error lists no fields."""
    faults = error.get("faults", ())
    if not faults:
        return {}
    described = [
        {
            "pointer": one["path"],
            "rule": one["message"],
            "suggestion": "",
            "code": one["code"],
        }
        for one in faults
    ]
    return {"faults": described}


def hide_stored_text(request: web.Request, operation: Operation, output: Any) -> Any:
    """Return only ids and the version if the caller may not read the stored text in the output."""
    return hide_output(get_caller(request).scopes, operation, output)


def _make_response(
    request: web.Request, operation: Operation, output: Any, *, is_dry: bool
) -> web.Response:
    if output is None:
        return web.Response(status=204)
    if is_dry:
        return json_response(output)
    if IF_ABSENT in route_of(operation).body_fields:
        check_absence(request, won=output["won"])
    etag: dict[str, str] = {hdrs.ETAG: f'"{output["version"]}"'} if "version" in output else {}
    if etag and is_unchanged(request, output["version"]):
        return web.Response(status=304, headers=etag)
    if (state := request.get(READ_STATE)) is not None:
        etag[AS_OF_HEADER] = format_state(state)
    if (receipt := request.get(RECEIPT_ID)) is not None:
        etag[RECEIPT_HEADER] = receipt
    is_created = operation.verb == "create" and output.get(ACTION, CREATED) == CREATED
    response = json_response(output, 201 if is_created else 200, **etag)
    if is_created:
        store = f"?{request.query_string}" if STORE in request.query else ""
        # An item that is returned with more than itself, such as an endpoint with its secret.
        item = output.get(operation.noun.removesuffix("s"), output)
        item_id = next(item[name] for name in IN_PATH if name in item)
        response.headers[hdrs.LOCATION] = f"{request.path}/{item_id}{store}"
    return response


def format_state(state: Mapping[str, Any]) -> str:
    """Return the value of AS_OF_HEADER: `n:1204; at=2026-11-24T09:00:00.000Z; incomplete=0`."""
    return f"n:{state['change']}; at={state['at']}; incomplete={state['incomplete']}"


async def _read_input(request: web.Request, operation: Operation, route: OperationRoute) -> bytes:
    """Return the input as JSON with defaults. Raises BadRequest and Unprocessable."""
    types = _query_types(operation, route)
    arrays = [name for name, json_kind in types.items() if json_kind == "array"]
    selectors = [STORE] if selects_store(operation) else []
    selectors += [AS_OF] if operation.takes_as_of else []
    refuse_unknown(request, (*types, *selectors), arrays)
    report = Report()
    given = _parse_query(request, types, report)
    if route.method != "GET":
        given |= await _read_body_fields(request, operation, route, report)
    given |= {name: request.match_info[name] for name in route.path_fields}
    if operation.has_caller:
        given |= identity_of(request, given)
    if route.has_if_match and (versions := parse_if_match(request, hdrs.IF_MATCH)):
        given[IN_HEADER] = versions
    if IF_ABSENT in route.body_fields and requires_absence(request):
        given[IF_ABSENT] = True
    given = {**operation.face_defaults, **given}
    return _validate(operation, given, report, is_text=route.method in IN_QUERY)


@cache
def _query_types(operation: Operation, route: OperationRoute) -> dict[str, str]:
    """Return the JSON type of each query parameter."""
    properties = input_schema(operation)["properties"]
    return {name: json_type(properties[name]) for name in route.query_fields}


def _parse_query(request: web.Request, types: dict[str, str], report: Report) -> dict[str, Any]:
    """Parse the query string. Array parameters may repeat, and object parameters are JSON.

    A parameter of any type is JSON, or else text.
    """
    given: dict[str, Any] = {}
    for name, json_kind in types.items():
        if json_kind == "array":
            given[name] = [value for value in request.query.getall(name, []) if value]
        elif name in request.query:
            value = request.query[name]
            given[name] = parse_as(json_kind, name, value, report)
    return given


async def _read_body_fields(
    request: web.Request, operation: Operation, route: OperationRoute, report: Report
) -> dict[str, Any]:
    """Return the known fields of the body and report the unknown ones."""
    value = await read_object(request, route.body_fields)
    if operation.has_caller:
        refuse_vouched(value)
    for name in value.keys() - set(route.body_fields):
        rule = f"{operation.name} has no such body field"
        if name in route.query_fields:
            report.error((name,), rule, f"send it in the URL: ?{name}=...")
        else:
            report.unknown((name,), rule, name, route.body_fields or route.query_fields)
    return {name: field for name, field in value.items() if name in route.body_fields}


async def read_object(request: web.Request, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON object in the body, or {} if the body is empty.

    `names` are the fields to list in an error. Raises BadRequest and Unprocessable.
    """
    body, max_keys = await read_json_body(request), get_services(request).options.json_keys
    if too_many_keys(body, max_keys):
        raise Unprocessable(f"the JSON has more than {max_keys} keys (web.max_json_keys)")
    try:
        value = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error.msg}") from error
    if not isinstance(value, dict):
        fields = f" with {', '.join(names)}" if names else ""
        raise Unprocessable(f"the body must be a JSON object{fields}")
    try:
        check_integers(body)
    except Refused as refused:
        raise Unprocessable(str(refused)) from refused
    return value


def validate_input(operation: Operation, given: dict[str, Any]) -> bytes:
    """Return an input as JSON with defaults. Raises Unprocessable."""
    return _validate(operation, given, Report(), is_text=False)


def _validate(
    operation: Operation, given: dict[str, Any], report: Report, *, is_text: bool
) -> bytes:
    """Validate an input. `is_text`: its values are strings. Raises Unprocessable."""
    try:
        if is_text:
            parsed = operation.adapter.validate_python(given)
        else:
            parsed = operation.adapter.validate_json(orjson.dumps(given), strict=True)
    except ValidationError as error:
        report_validation_error(error, given, (), report)
    except orjson.JSONEncodeError as error:
        raise Unprocessable(f"the input cannot be encoded as JSON: {error}") from error
    if report.errors:
        count = len(report.errors)
        raise Unprocessable(
            f"the input of {operation.name} has {count} fault{'s' * (count > 1)}; see `faults`",
            faults=[fault.as_json() for fault in report.errors],
        )
    return orjson.dumps(parsed)
