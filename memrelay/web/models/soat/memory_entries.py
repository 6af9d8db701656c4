"""/api/v1/memory-entries: the entries of memories as in SOAT from version 0.13 on."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import read_object
from memrelay.web.models.shapes import to_shape
from memrelay.web.models.soat.calls import Json, call_by_id, list_entries, rename_source_type
from memrelay.web.models.soat.errors import LATER_SOAT_API
from memrelay.web.models.soat.memories import INVALID_FIELD, MEMORY_NOT_FOUND
from memrelay.web.models.soat.shapes import (
    NULL_FIELDS,
    LaterEntries,
    LaterEntry,
    LaterEntryChange,
    LaterWritten,
    NewLaterEntry,
)
from memrelay.web.openapi.shapes import Reference
from memrelay.web.server.errors import BadRequest

routes = web.RouteTableDef()
COLLECTION_PATH = "/api/v1/memory-entries"
ITEM_PATH = COLLECTION_PATH + "/{entry_id}"
ENTRY_NOT_FOUND = "Memory entry not found."
NEW_FIELDS = (
    "memory_id",
    "content",
    "source_type",
    "source",
    "tags",
    "metadata",
    "duplicate_threshold",
    "mode",
)
CHANGEABLE_FIELDS = ("content", "tags", "metadata")
LIST_PARAMETERS = ("memory_id", "limit", "offset", "tags", "include_invalidated")
DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET = 50, 100, 2**63 - 1
# The default of later SOAT versions: a write creates an entry, or skips a known one.
DEFAULT_MODE = "skip"


@LATER_SOAT_API.serve(
    routes,
    "POST",
    COLLECTION_PATH,
    "entries.create",
    {
        201: "A new entry, with its action.",
        200: "An existing entry that was skipped, or updated as `mode` requests.",
        400: INVALID_FIELD,
        404: MEMORY_NOT_FOUND,
    },
    schemas={201: LaterWritten | Reference, 200: LaterWritten | Reference},
    body="{memory_id, content, source_type?, tags?, metadata?, duplicate_threshold?, mode?}",
    body_schema=NewLaterEntry,
)
async def create(request: web.Request) -> web.Response:
    """Write an entry unless an existing one has the same meaning.

    `mode` allows merging it into an existing entry.
    """
    fields = await _read_fields(request, NEW_FIELDS, required=("memory_id", "content"))
    given = {"mode": DEFAULT_MODE} | {
        name: value for name, value in fields.items() if value is not None
    }
    output = await call_by_id(
        request, "entries.create", "mem", _get_text(given, "memory_id"), rename_source_type(given)
    )
    return json_response(to_later_entry(output), 201 if output["action"] == "created" else 200)


@LATER_SOAT_API.serve(
    routes,
    "GET",
    COLLECTION_PATH,
    "entries.list",
    {
        200: "{data, total, limit, offset}, oldest first.",
        400: INVALID_FIELD,
        404: MEMORY_NOT_FOUND,
    },
    query={
        "memory_id": "The memory. Required.",
        "limit": "The maximum number of entries: 1 to 100, or the nearest.",
        "offset": "The number of entries to skip.",
        "tags": "Only entries with this tag. Repeat it to match any of several tags.",
        "include_invalidated": "Accepted without effect: Memrelay invalidates no entries.",
    },
    query_schemas={
        "memory_id": {"type": "string", "minLength": 1},
        # As in SOAT, any number is accepted.
        "limit": {"type": "integer"},
        "offset": {"type": "integer"},
    },
    required_query=("memory_id",),
    schemas={200: LaterEntries},
)
async def list_all(request: web.Request) -> web.Response:
    """List a part of a memory's entries."""
    refuse_unknown(request, LIST_PARAMETERS, lists=("tags",))
    query = request.query
    memory_id = query.get("memory_id", "")
    if not memory_id:
        raise _missing_fields(["memory_id"])
    limit = min(max(_parse_number(query.get("limit", ""), DEFAULT_LIMIT), 1), MAX_LIMIT)
    offset = max(_parse_number(query.get("offset", ""), 0), 0)
    given = {"memory_id": memory_id, "tags": [tag for tag in query.getall("tags", []) if tag]}
    found, total = await list_entries(request, given, limit, offset)
    return json_response(
        {
            "data": [to_later_entry(one) for one in found],
            "total": total,
            "limit": limit,
            "offset": offset,
        }
    )


@LATER_SOAT_API.serve(
    routes,
    "GET",
    ITEM_PATH,
    "entries.get",
    {200: "The entry.", 404: ENTRY_NOT_FOUND},
    schemas={200: LaterEntry},
)
async def show(request: web.Request) -> web.Response:
    """Show an entry of any memory."""
    return json_response(to_later_entry(await _call_for_entry(request, "entries.get", {})))


@LATER_SOAT_API.serve(
    routes,
    "PUT",
    ITEM_PATH,
    "entries.update",
    {200: "The entry.", 400: INVALID_FIELD, 404: ENTRY_NOT_FOUND},
    schemas={200: LaterEntry | Reference},
    body="{content?, tags?, metadata?}. null clears tags or metadata.",
    body_schema=LaterEntryChange,
    needs_body=False,
)
async def update(request: web.Request) -> web.Response:
    """Change an entry, without deduplication."""
    given = await _read_fields(request, CHANGEABLE_FIELDS)
    if "content" in given and not given["content"]:
        raise BadRequest("content is required: omit the field, or send the new content")
    empty: Json = {"tags": [], "metadata": {}}
    given |= {name: value for name, value in empty.items() if name in given and given[name] is None}
    return json_response(to_later_entry(await _call_for_entry(request, "entries.update", given)))


@LATER_SOAT_API.serve(
    routes,
    "DELETE",
    ITEM_PATH,
    "entries.delete",
    {204: "The entry was deleted.", 404: ENTRY_NOT_FOUND},
)
async def delete(request: web.Request) -> web.Response:
    """Delete an entry."""
    await _call_for_entry(request, "entries.delete", {})
    return web.Response(status=204)


def to_later_entry(output: Json) -> Json:
    """Return an entry in the shape of later SOAT versions, plus Memrelay's own fields.

    An output without text stays as it is.
    """
    if "content" not in output:
        return output
    entry: Json = to_shape(LaterWritten, output)
    empty = {name: entry.get(name) or None for name in ("tags", "metadata")}
    return entry | empty | dict.fromkeys(NULL_FIELDS)


async def _call_for_entry(request: web.Request, name: str, given: Json) -> Any:
    entry_id = request.match_info["entry_id"]
    return await call_by_id(request, name, "me", entry_id, given | {"id": entry_id})


async def _read_fields(
    request: web.Request, names: tuple[str, ...], required: tuple[str, ...] = ()
) -> Json:
    """Return the JSON object in the body. Raises BadRequest with all unknown or missing fields."""
    given = await read_object(request)
    if unknown := [name for name in given if name not in names]:
        listed = ", ".join(name[:50] for name in unknown[:20])
        raise BadRequest(
            f"Unknown field(s): {listed}; known are {', '.join(names)}",
            unknownFields=unknown[:20],
        )
    if missing := [name for name in required if given.get(name) in (None, "")]:
        raise _missing_fields(missing)
    return given


def _missing_fields(names: list[str]) -> BadRequest:
    return BadRequest(f"Missing required field(s): {', '.join(names)}", missingFields=names)


def _get_text(given: Json, name: str) -> str:
    """Return a string field. Raises BadRequest for another type."""
    value = given[name]
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be text")
    return value


def _parse_number(text: str, default: int) -> int:
    """Return a number, or the default for invalid text, as SOAT does."""
    try:
        return max(-1, min(int(text), MAX_OFFSET)) if len(text) <= 20 else default
    except ValueError:
        return default
