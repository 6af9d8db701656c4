"""/v1/keys: list, create, and revoke API keys."""

from typing import Any

from aiohttp import hdrs, web
from pydantic import TypeAdapter, ValidationError

from memrelay.logs import get_logger
from memrelay.memory.control.key_requests import (
    Creator,
    ExceedsCreator,
    KeyRequest,
    create_key,
    list_notes,
    to_json,
)
from memrelay.memory.control.keys import CreatedKey, KeysExist
from memrelay.memory.errors import InvalidInput
from memrelay.pipelines.report import Report
from memrelay.pipelines.rules import report_validation_error
from memrelay.web.api.answers import (
    json_response,
    page_response,
    parse_limit,
    parse_numeric_cursor,
    refuse_unknown,
)
from memrelay.web.api.operations import read_object
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import NUMERIC_CURSOR_SCHEMA, PAGE_QUERY, documented
from memrelay.web.openapi.shapes import ApiKey, ApiKeyCreated, NewApiKey, Page
from memrelay.web.server.errors import NotAllowed, NotFound, Unauthorized, Unprocessable
from memrelay.web.services import get_services

log = get_logger(__name__)
routes = web.RouteTableDef()
PATH = "/v1/keys"
PAGE_SIZE = 100
MAX_POSITION = 10**18 - 1
ADAPTER: TypeAdapter[NewApiKey] = TypeAdapter(NewApiKey)


@routes.get(PATH)
@documented(
    {200: "A page of keys."},
    query=PAGE_QUERY,
    query_schemas={"cursor": NUMERIC_CURSOR_SCHEMA},
    schemas={200: Page[ApiKey]},
)
@requires("admin", for_all_pipelines=True)
async def list_all(request: web.Request) -> web.Response:
    """List all keys without their secrets, oldest first, also revoked and expired ones.

    Returns {items, next_cursor, total}.
    """
    refuse_unknown(request, ("limit", "cursor"))
    services, limit = get_services(request), parse_limit(request, PAGE_SIZE)
    # Keys are never deleted, so the position of a key never changes.
    start = parse_numeric_cursor(request.query.get("cursor") or "0", MAX_POSITION)
    keys = await services.catalog.keys.every()
    end = start + limit
    items = [to_json(key, services.authorizer.now_ms) for key in keys[start:end]]
    return page_response(items, str(end) if end < len(keys) else None, len(keys))


@routes.post(PATH)
@documented(
    {
        201: "The key, shown only now. `notes` states what changes with it.",
        422: "The key has faults, for example an unknown scope or pipeline.",
    },
    body="The scopes, pipelines and lifetime must not exceed those of the caller.",
    body_schema=NewApiKey,
    schemas={201: ApiKeyCreated},
)
@requires("admin", for_all_pipelines=True)
async def create(request: web.Request) -> web.Response:
    """Create a key. After the first one, every request needs a key.

    Returns 201 with the key's text, which cannot be shown again. The key works at once.
    """
    services, caller = get_services(request), get_caller(request)
    key_request = _parse_request(await read_object(request, tuple(NewApiKey.__annotations__)))
    await _check_current(request)
    now_ms = services.authorizer.now_ms
    creator = Creator(caller.scopes, caller.pipelines, caller.expires_at, bool(caller.key))
    try:
        created = await create_key(services.catalog, key_request, now_ms, creator)
    except InvalidInput as error:
        raise _invalid(error) from error
    except ExceedsCreator as error:
        fault = {"pointer": error.pointer, "rule": str(error), "suggestion": ""}
        raise NotAllowed(str(error), faults=[fault]) from error
    except KeysExist as error:
        raise Unauthorized(str(error)) from error
    # Otherwise the cached credentials reject the key for up to a second.
    await services.authorizer.get_credentials(refresh=True)
    log.info("key_created", key=created.key.id, creator=caller.key)
    return await _created_response(request, created, now_ms)


@routes.delete(PATH + "/{id}")
@documented({204: "The key and its sessions are rejected from now on."})
@requires("admin", for_all_pipelines=True)
async def revoke(request: web.Request) -> web.Response:
    """Revoke a key. It stays in the list."""
    services, ident = get_services(request), request.match_info["id"]
    await _check_current(request)
    if not await services.catalog.keys.revoke(ident, services.authorizer.now_ms):
        raise NotFound(f"no key {ident[:100]!r}; GET {PATH} lists all keys")
    await services.authorizer.get_credentials(refresh=True)
    log.info("key_revoked", key=ident, revoker=get_caller(request).key)
    return web.Response(status=204)


async def _check_current(request: web.Request) -> None:
    """Raise Unauthorized if the caller lost access within the last second.

    Otherwise a key could create another one after its own revocation.
    """
    authorizer = get_services(request).authorizer
    credentials = await authorizer.get_credentials(refresh=True)
    if fault := credentials.find_fault(get_caller(request), authorizer.now_ms):
        raise Unauthorized(fault)


def _parse_request(body: dict[str, Any]) -> KeyRequest:
    """Check the types of the body's fields. Raises Unprocessable."""
    report = Report()
    try:
        return KeyRequest(**ADAPTER.validate_python(body, strict=True))
    except ValidationError as error:
        report_validation_error(error, body, (), report)
    faults = [fault.as_json() for fault in report.errors]
    raise Unprocessable(
        "; ".join(f"{one['pointer']} {one['rule']}" for one in faults), faults=faults
    )


def _invalid(error: InvalidInput) -> Unprocessable:
    faults = [
        {"pointer": one.path, "rule": one.message, "suggestion": "", "code": one.code}
        for one in error.faults
    ]
    return Unprocessable(str(error), faults=faults)


async def _created_response(request: web.Request, created: CreatedKey, now_ms: int) -> web.Response:
    active = await get_services(request).catalog.active()
    body = to_json(created.key, now_ms) | {
        "key": created.text,
        "is_first": created.is_first,
        "notes": list_notes(created, active),
    }
    response = json_response(body, 201)
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    return response
