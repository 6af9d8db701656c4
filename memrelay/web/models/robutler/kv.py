"""/api/kv: the older calls of integrations. The subject is the store."""

from typing import Any

from aiohttp import web

from memrelay.memory.engine.identity import VOUCHED
from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import read_object
from memrelay.web.auth.identity import AGENT
from memrelay.web.models.robutler import shapes
from memrelay.web.models.robutler.calls import (
    IDENTITY,
    KV,
    Json,
    get_entry,
    make_put,
    merge_identity,
    put_entry,
    read_identity,
)
from memrelay.web.models.robutler.errors import ROBUTLER_API
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.errors import BadRequest, NotFound

routes = web.RouteTableDef()
NAMES = (*IDENTITY, "key", "subjectType", "subjectId", "namespace")
FIELDS = (*NAMES, "value", "inContext")


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
    refuse_unknown(request, NAMES)
    await find_pipeline(request)
    query = request.query
    identity = _read_identity(request, query)
    place = {
        "store": _store_of(query, identity),
        "namespace": query.get("namespace"),
        "key": _get_key(query),
    }
    try:
        entry = await get_entry(request, identity | place | {"internal": True})
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
    body = await read_object(request, FIELDS)
    for name in body.keys() - {*FIELDS, VOUCHED}:
        raise BadRequest(f"unknown field {name[:50]!r}; known are {', '.join(FIELDS)}")
    given = merge_identity(request, body)
    identity = _read_identity(request, given)
    fields: Json = {name: given[name] for name in ("value", "namespace") if name in given}
    # A null counts as absent: integrations keep credentials here.
    fields |= {"store": _store_of(given, identity), "inContext": given.get("inContext") or False}
    await put_entry(request, make_put(identity, _get_key(given), fields))
    return json_response({"success": True})


def _read_identity(request: web.Request, given: Any) -> Json:
    """Return the identity. By default the agent is the subject, if that is an agent."""
    is_agent = given.get("subjectType") in (None, "", "agent")
    return read_identity(request, given, agent=given.get("subjectId") if is_agent else None)


def _store_of(given: Any, identity: Json) -> Any:
    return given.get("subjectId") or identity[AGENT]


def _get_key(given: Any) -> Any:
    if given.get("key") in (None, ""):
        raise BadRequest("key is required")
    return given["key"]
