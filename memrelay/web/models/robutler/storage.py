"""/api/storage/memory: entries, search, shares and stores. /api/tools/memory: the memory tool."""

from typing import Any

from aiohttp import hdrs, web

from memrelay.memory.models.shared_stores.tool.arguments import is_read
from memrelay.web.api.answers import (
    check_absence,
    json_response,
    parse_if_match,
    parse_limit,
    refuse_unknown,
    requires_absence,
)
from memrelay.web.api.operations import read_object
from memrelay.web.auth.identity import refuse_vouched
from memrelay.web.models.robutler import shapes
from memrelay.web.models.robutler.calls import (
    ENTRY,
    ENTRY_ENDS,
    IDENTITY,
    MEMORY,
    PUT_FIELDS,
    TOOL,
    Json,
    call,
    get_entry,
    make_put,
    parse_flag,
    put_entry,
    read_fields,
    read_identity,
    read_key,
    store_of,
)
from memrelay.web.models.robutler.errors import ROBUTLER_API
from memrelay.web.models.shapes import to_shape
from memrelay.web.openapi.route_docs import IF_ABSENT_HEADER, IF_MATCH_HEADER
from memrelay.web.server.errors import BadRequest

routes = web.RouteTableDef()
DEFAULT_LIMIT = 100
STORE_QUERY = {"store": "The store. The default is the agent's own."}
NAMESPACE_QUERY = {"namespace": "The namespace of the key. The default is the empty one."}
ACTION_QUERY = {"action": "What to do instead of listing entries: search, or stores."}
SHARE_QUERY = {"action": "Always share."}
SHARE_SCHEMA = {"action": {"type": "string", "enum": ["share"]}}
CONFLICT = {409: "The entry has another version than If-Match, or exists despite If-None-Match."}
SHARE_FIELDS = ("store", "grantee", "level", "ttl")


@ROBUTLER_API.serve(
    routes,
    "GET",
    MEMORY,
    "items.list",
    {200: "A page of entries in the order of their keys, search results, or stores."},
    query=STORE_QUERY
    | NAMESPACE_QUERY
    | ACTION_QUERY
    | {
        "inContext": "true, or false to list hidden entries without values (scope admin).",
        "prefix": "Only keys that begin with this text.",
        "limit": "The maximum number of entries or stores. The default is 100.",
        "cursor": "The `cursor` of the previous page.",
        "q": "The text to search for. Required for action=search.",
    },
    query_schemas={
        "action": {"type": "string", "enum": ["search", "stores"]},
        "inContext": {"type": "boolean"},
    },
    schemas={200: shapes.EntryPage | shapes.Results | shapes.Stores},
    scopes=("read", "search"),
)
async def read_store(request: web.Request) -> web.Response:
    """List the entries of a store, search in stores, or list the stores that the agent may use."""
    actions = {"": _list_entries, "search": _search, "stores": _list_stores}
    action = request.query.get("action", "")
    if action not in actions:
        raise BadRequest(f"unknown action {action[:50]!r}; use search or stores, or none to list")
    return json_response(await actions[action](request))


@ROBUTLER_API.serve(
    routes,
    "POST",
    MEMORY,
    "grants.set",
    {200: "The grant is in force."},
    query=SHARE_QUERY,
    query_schemas=SHARE_SCHEMA,
    required_query=("action",),
    body="{agentId, grantee, store?, level?, ttl?, chatId?, userId?}",
    body_schema=shapes.NewShare,
    schemas={200: shapes.Shared},
)
async def share(request: web.Request) -> web.Response:
    """Give another agent access to a store."""
    _require_share(request, ())
    body = await read_fields(request, SHARE_FIELDS)
    identity = read_identity(request, body)
    given = {"grantee": _get_grantee(body), "level": body.get("level"), "ttl_s": body.get("ttl")}
    store = {"store": store_of(body, identity)}
    grant = await call(request, "grants.set", identity | store | given)
    return json_response({"success": True} | ({"lowers": True} if grant.get("lowers") else {}))


@ROBUTLER_API.serve(
    routes,
    "DELETE",
    MEMORY,
    "grants.remove",
    {200: "The grantee has no grant for the store."},
    query=SHARE_QUERY | STORE_QUERY | {"grantee": "The agent that loses its access."},
    query_schemas=SHARE_SCHEMA,
    required_query=("action", "grantee"),
    schemas={200: shapes.Done},
)
async def unshare(request: web.Request) -> web.Response:
    """Remove the grant of an agent. Without agentId, the agent of the store acts."""
    _require_share(request, ("store", "grantee"))
    query = request.query
    identity = read_identity(request, query, agent=query.get("store", ""))
    given = {"store": store_of(query, identity), "grantee": _get_grantee(query)}
    await call(request, "grants.remove", identity | given)
    return json_response({"success": True})


@ROBUTLER_API.serve(
    routes,
    "GET",
    ENTRY,
    "items.get",
    {200: "The entry."},
    query=STORE_QUERY
    | NAMESPACE_QUERY
    | {
        "owner": "The agent that wrote the entry. The default is the caller, then the newest.",
        "inContext": "true to find visible entries only.",
    },
    query_schemas={"inContext": {"type": "boolean"}},
    schemas={200: shapes.Entry},
    ends=ENTRY_ENDS,
)
async def get(request: web.Request) -> web.Response:
    """Return an entry, also one that is hidden from lists and searches."""
    query = _read_query(request, ("store", "namespace", "owner", "inContext"))
    given = _locate(request) | {
        "owner": query.get("owner") or None,
        "internal": not parse_flag(query, "inContext"),
    }
    return _entry_response(await get_entry(request, given))


@ROBUTLER_API.serve(
    routes,
    "PUT",
    ENTRY,
    "items.put",
    {200: "The entry. `value` is null if the entry is hidden or encrypted."} | CONFLICT,
    headers=IF_MATCH_HEADER | IF_ABSENT_HEADER,
    body="{agentId, value, ttl?, store?, namespace?, inContext?, encrypted?, ifAbsent?, ...}",
    body_schema=shapes.NewEntry,
    schemas={200: shapes.PutEntry | shapes.PutReference},
    ends=ENTRY_ENDS,
)
async def put(request: web.Request) -> web.Response:
    """Write an entry of the calling agent."""
    _read_query(request, ())
    body = await read_fields(request, tuple(PUT_FIELDS))
    given = make_put(read_identity(request, body), read_key(request), body)
    if versions := parse_if_match(request, hdrs.IF_MATCH):
        given["if_version"] = versions
    if requires_absence(request):
        given["if_absent"] = True
    entry = await put_entry(request, given)
    check_absence(request, won=entry["won"])
    return _entry_response(entry)


@ROBUTLER_API.serve(
    routes,
    "DELETE",
    ENTRY,
    "items.delete",
    {200: "Whether the agent had this entry."} | CONFLICT,
    query=STORE_QUERY | NAMESPACE_QUERY,
    headers=IF_MATCH_HEADER,
    schemas={200: shapes.Deleted},
    ends=ENTRY_ENDS,
)
async def delete(request: web.Request) -> web.Response:
    """Delete an entry of the calling agent."""
    _read_query(request, ("store", "namespace"))
    given = _locate(request) | {"if_version": parse_if_match(request, hdrs.IF_MATCH)}
    output = await call(request, "items.delete", given)
    return json_response({"success": True, "deleted": output["deleted"]})


async def _list_entries(request: web.Request) -> Any:
    query = _read_query(
        request, ("action", "store", "namespace", "inContext", "prefix", "limit", "cursor")
    )
    identity = read_identity(request, query)
    in_context = parse_flag(query, "inContext")
    page = await call(
        request,
        "items.list",
        identity
        | {
            "store": store_of(query, identity),
            "namespace": query.get("namespace"),
            "prefix": query.get("prefix", ""),
            "in_context": in_context,
            "limit": parse_limit(request, DEFAULT_LIMIT),
            "cursor": query.get("cursor", ""),
        },
    )
    return to_shape(shapes.EntryPage, page)


async def _search(request: web.Request) -> Any:
    query = _read_query(request, ("action", "store", "q"))
    identity = read_identity(request, query)
    if not query.get("q", "").strip():
        raise BadRequest("q is required for search: send the text to search for")
    stores = [query["store"]] if query.get("store") else []
    input = identity | {"query": query["q"], "stores": stores}
    return to_shape(shapes.Results, await call(request, "items.search", input))


async def _list_stores(request: web.Request) -> Json:
    query = _read_query(request, ("action", "limit", "cursor"))
    page = {"limit": parse_limit(request, DEFAULT_LIMIT), "cursor": query.get("cursor", "")}
    listed = await call(request, "stores.list", read_identity(request, query) | page)
    stores = to_shape(shapes.Stores, listed)
    return {name: value for name, value in stores.items() if value is not None}


def _locate(request: web.Request) -> Json:
    """Return the identity, store, namespace and key of a request for one entry."""
    identity = read_identity(request, request.query)
    return identity | {
        "store": store_of(request.query, identity),
        "namespace": request.query.get("namespace"),
        "key": read_key(request),
    }


def _read_query(request: web.Request, names: tuple[str, ...]) -> Any:
    """Return the query after a check of its names. Raises BadRequest."""
    refuse_unknown(request, (*IDENTITY, *names))
    return request.query


def _require_share(request: web.Request, names: tuple[str, ...]) -> None:
    """Check the query of a change of a store's grants. Raises BadRequest."""
    _read_query(request, ("action", *names))
    if request.query.get("action") != "share":
        raise BadRequest("add ?action=share to the path, or the key of an entry")


def _get_grantee(given: Any) -> Any:
    if not given.get("grantee"):
        raise BadRequest("grantee is required: send the id of the other agent")
    return given["grantee"]


def _entry_response(entry: Json) -> web.Response:
    return json_response(entry, ETag=f'"{entry["version"]}"')


@ROBUTLER_API.serve(
    routes,
    "POST",
    TOOL,
    "memory_tool.write",
    {200: "The answer of the tool. An error is a value with `is_error`."},
    query={"dialect": "robutler (the default), or anthropic for the tool memory_20250818."},
    query_schemas={"dialect": {"type": "string", "enum": ["robutler", "anthropic"]}},
    body="The arguments of the tool call.",
    body_schema=dict,
    schemas={200: shapes.ToolAnswer},
    scopes=("search", "read", "write", "delete"),
    ident="tool.use_tool",
)
async def use_tool(request: web.Request) -> web.Response:
    """Carry out a call of the memory tool."""
    refuse_unknown(request, (*IDENTITY, "dialect"))
    arguments = await read_object(request)
    refuse_vouched(arguments)
    dialect = request.query.get("dialect") or "robutler"
    identity = read_identity(request, request.query)
    name = "memory_tool.read" if is_read(arguments, dialect) else "memory_tool.write"
    answer = await call(request, name, identity | {"arguments": arguments, "dialect": dialect})
    return json_response({"value": answer["value"], "is_error": answer["is_error"]})
