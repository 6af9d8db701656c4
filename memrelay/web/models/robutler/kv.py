"""/api/kv: the older calls of integrations. The subject is the store."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.identity import AGENT
from memrelay.web.models.robutler import shapes
from memrelay.web.models.robutler.calls import (
    IDENTITY,
    KV,
    Json,
    get_entry,
    make_put,
    put_entry,
    read_fields,
    read_identity,
)
from memrelay.web.models.robutler.errors import ROBUTLER_API
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.errors import BadRequest, NotFound

routes = web.RouteTableDef()
NAMES = ("key", "subjectType", "subjectId", "namespace")
BODY_NAMES = (*NAMES, "value", "inContext")


@ROBUTLER_API.serve(
    routes,
    "GET",
    KV,
    "items.get",
    {200: "Whether the key exists, and its value."},
    query={
        "key": "The key.",
        "subjectType": "agent (the default), user or chat.",
        "subjectId": "The store. The default is the agent's own.",
        "namespace": "The namespace of the key. The default is the empty one.",
    },
    required_query=("key",),
    schemas={200: shapes.KvFound},
)
async def get_value(request: web.Request) -> web.Response:
    """Return the value of a key, also of a hidden one."""
    refuse_unknown(request, (*IDENTITY, *NAMES))
    await find_pipeline(request)
    query = request.query
    identity = _read_identity(request, query)
    input = identity | {
        "store": _select_store(query, identity),
        "namespace": query.get("namespace"),
        "key": _get_key(query),
        "internal": True,
    }
    try:
        entry = await get_entry(request, input)
    except NotFound:
        return json_response({"found": False, "value": None})
    return json_response({"found": True, "value": entry["value"]})


@ROBUTLER_API.serve(
    routes,
    "POST",
    KV,
    "items.put",
    {200: "The value is stored."},
    body="{key, value, subjectType?, subjectId?, namespace?, inContext?, agentId?, ...}",
    body_schema=shapes.NewKv,
    schemas={200: shapes.Done},
)
async def set_value(request: web.Request) -> web.Response:
    """Store a value, by default hidden from lists, searches and the memory tool."""
    refuse_unknown(request, tuple(IDENTITY))
    body = await read_fields(request, BODY_NAMES)
    identity = _read_identity(request, body)
    fields: Json = {name: body[name] for name in ("value", "namespace") if name in body}
    # A null counts as absent: integrations keep credentials here.
    fields |= {"store": _select_store(body, identity), "inContext": body.get("inContext") or False}
    await put_entry(request, make_put(identity, _get_key(body), fields))
    return json_response({"success": True})


def _read_identity(request: web.Request, fields: Any) -> Json:
    """Return the identity. By default the agent is the subject, if that is an agent."""
    is_agent = fields.get("subjectType") in (None, "", "agent")
    return read_identity(request, fields, agent=fields.get("subjectId") if is_agent else None)


def _select_store(fields: Any, identity: Json) -> Any:
    return fields.get("subjectId") or identity[AGENT]


def _get_key(fields: Any) -> Any:
    if fields.get("key") in (None, ""):
        raise BadRequest("key is required")
    return fields["key"]
