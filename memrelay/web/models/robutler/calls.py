"""Requests and answers of Robutler's paths: identity, entries, and calls to the operations."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from memrelay.memory.engine.identity import MAX_ID_CHARACTERS, VOUCHED
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.auth.access import get_caller
from memrelay.web.auth.identity import AGENT, CHAT, USER, identity_of, refuse_vouched
from memrelay.web.models.robutler.shapes import Entry
from memrelay.web.models.routes import find_pipeline
from memrelay.web.models.shapes import to_shape
from memrelay.web.server.error_dialects import PIPELINE_PREFIX
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.options import OPTIONS

Json = dict[str, Any]
IDENTITY = {"agentId": AGENT, "chatId": CHAT, "userId": USER}
# What a JavaScript client sends for a variable without a value.
UNDEFINED = "undefined"
MISSING = (None, "", UNDEFINED)
# The fields of a put that its body may have, and their names in the operation.
PUT_FIELDS = {
    "value": "value",
    "ttl": "ttl_s",
    "store": "store",
    "namespace": "namespace",
    "inContext": "in_context",
    "encrypted": "encrypted",
    "ifAbsent": "if_absent",
}
MEMORY = "/api/storage/memory"
# A key may contain slashes and line breaks.
ENTRY = MEMORY + "/{key:(?s:.+)}"
# A last slash belongs to the key.
ENTRY_ENDS = ("",)
KV = "/api/kv"
TOOL = "/api/tools/memory"


async def call(request: web.Request, name: str, input: Mapping[str, Any]) -> Any:
    """Call an operation in the request's pipeline. Omits fields that are null. Raises Problem."""
    uid = await find_pipeline(request)
    fields = {field: value for field, value in input.items() if value is not None}
    return await call_operation(request, name, uid, fields)


def read_identity(request: web.Request, given: Mapping[str, Any], *, agent: Any = None) -> Json:
    """Return the identity of a call. An id that is the text `undefined` counts as missing.

    If the request names no agent, it is that of the JWT, else `agent`. Raises BadRequest: there is
    no agent.
    """
    refuse_vouched(given)
    named = {name: given.get(field) for field, name in IDENTITY.items()}
    ids = {name: value for name, value in named.items() if value != UNDEFINED}
    ids[AGENT] = ids.get(AGENT) or get_caller(request).agent or agent
    if ids[AGENT] == UNDEFINED:
        raise BadRequest("agentId is the text undefined: send the id of the calling agent")
    identity = identity_of(request, ids)
    if AGENT not in identity:
        raise BadRequest("agentId is required: send the id of the calling agent")
    return identity


async def read_fields(request: web.Request, names: tuple[str, ...]) -> Json:
    """Return the fields of the body, and the identity in query and body.

    Raises BadRequest: a field is unknown, or query and body name different ids.
    """
    body = await read_object(request, names)
    known = (*IDENTITY, *names)
    if unknown := [name for name in body if name not in (*known, VOUCHED)]:
        raise BadRequest(f"unknown field {unknown[0][:50]!r}; known are {', '.join(known)}")
    merged = dict(body)
    for name in IDENTITY:
        in_query, in_body = request.query.get(name), body.get(name)
        if in_query in MISSING:
            continue
        if in_body not in MISSING and in_body != in_query:
            raise BadRequest(
                f"{name} is {in_query[:MAX_ID_CHARACTERS]!r} in the query and "
                f"{str(in_body)[:MAX_ID_CHARACTERS]!r} in the body; send it once"
            )
        merged[name] = in_query
    return merged


def store_of(given: Mapping[str, Any], identity: Json) -> Any:
    """Return the store of a request, by default the own store of its agent."""
    store = given.get("store")
    return identity[AGENT] if store in (None, "") else store


def make_put(identity: Json, key: str, body: Mapping[str, Any]) -> Json:
    """Return the input of items.put for a body. Raises BadRequest if it has no value."""
    if "value" not in body:
        raise BadRequest("value is required; it may be any JSON value, also null")
    fields = {name: body[field] for field, name in PUT_FIELDS.items() if field in body}
    return identity | fields | {"store": store_of(body, identity), "key": key}


async def put_entry(request: web.Request, input: Json) -> Json:
    """Call items.put and return its output with the entry in Robutler's shape.

    A caller without the scope read gets only what it sent, and the version.
    """
    uid = await find_pipeline(request)
    fields = {name: value for name, value in input.items() if name == "value" or value is not None}
    output = await call_operation(request, "items.put", uid, fields)
    if "entry" in output:
        entry: Json = to_shape(Entry, output["entry"])
    else:
        entry = {"key": input["key"], "storeId": input["store"], "version": output["version"]}
    return entry | {"success": True, "created": output["created"], "won": output["won"]}


async def get_entry(request: web.Request, input: Json) -> Json:
    """Call items.get and return the entry in Robutler's shape. Raises NotFound."""
    entry: Json = to_shape(Entry, await call(request, "items.get", input))
    return entry


def parse_flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return a parameter that is true or false, None if it is absent. Raises BadRequest."""
    given = query.get(name, "")
    if given not in ("", "true", "false"):
        raise BadRequest(f"{name} must be true or false, not {given[:20]!r}")
    return given == "true" if given else None


def read_key(request: web.Request) -> str:
    """Return the key in the path, decoded once: `a%2Fb` is `a/b`, and `%2E%2E` is `..`.

    aiohttp's own decoding cannot tell an invalid escape from a literal one. Raises BadRequest.
    """
    prefix = PIPELINE_PREFIX if "uid" in request.match_info else ""
    slashes = (request.app[OPTIONS].base_path + prefix + MEMORY).count("/") + 1
    raw = request.rel_url.raw_path.split("/", slashes)[slashes]
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the key in the path is not UTF-8; encode it with percent signs") from (
            error
        )
