"""/api/v1/memories/{memory_id}/entries: the entries of a memory with SOAT's paths and shapes.

Responses also carry the field names of later SOAT versions.
"""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.access import get_caller
from memrelay.web.models.shapes import to_shape
from memrelay.web.models.soat.calls import (
    Json,
    list_all_pages,
    parse_owner,
    read_fields,
    rename_source_type,
    require_field,
)
from memrelay.web.models.soat.errors import SOAT_API
from memrelay.web.models.soat.memories import INVALID_FIELD, call_for_memory
from memrelay.web.models.soat.shapes import NewSoatEntry, SoatEntry, SoatEntryChange, SoatWritten
from memrelay.web.openapi.shapes import Reference

routes = web.RouteTableDef()
COLLECTION_PATH = "/api/v1/memories/{memory_id}/entries"
ITEM_PATH = COLLECTION_PATH + "/{entry_id}"
NOT_FOUND = "Memory not found, or Memory entry not found."
NEW_FIELDS = (
    "content",
    "source",
    "source_type",
    "tags",
    "duplicate_threshold",
    "update_threshold",
    "mode",
)


@SOAT_API.serve(
    routes,
    "POST",
    COLLECTION_PATH,
    "entries.create",
    {
        201: "A new entry, with its action.",
        200: "An existing entry that was skipped or updated.",
        400: INVALID_FIELD,
        404: NOT_FOUND,
    },
    schemas={201: SoatWritten | Reference, 200: SoatWritten | Reference},
    body="{content, source?, tags?, duplicate_threshold?, update_threshold?, mode?}",
    body_schema=NewSoatEntry,
)
async def create(request: web.Request) -> web.Response:
    """Write an entry unless an existing one has the same meaning."""
    await _check_memory(request)
    fields = await read_fields(request, NEW_FIELDS)
    given = {name: value for name, value in fields.items() if value is not None}
    require_field(given, "content")
    output = await call_for_memory(
        request, "entries.create", rename_source_type(given), field="memory_id"
    )
    return json_response(to_entry(output), 201 if output["action"] == "created" else 200)


@SOAT_API.serve(
    routes,
    "GET",
    COLLECTION_PATH,
    "entries.list",
    {200: "An array of entries, oldest first.", 400: INVALID_FIELD, 404: NOT_FOUND},
    schemas={200: list[SoatEntry]},
    query={"tags": "Only entries with this tag. Repeat it to match any of several tags."},
)
async def list_all(request: web.Request) -> web.Response:
    """List the entries of a memory, optionally with tags."""
    refuse_unknown(request, ("tags",), lists=("tags",))
    await _check_memory(request)
    memory_id = request.match_info["memory_id"]
    tags = [tag for tag in request.query.getall("tags", []) if tag]
    given = {"memory_id": memory_id, "tags": tags}
    found = await list_all_pages(request, "entries.list", parse_owner("mem", memory_id), given)
    return json_response([to_entry(one) for one in found])


@SOAT_API.serve(
    routes,
    "GET",
    ITEM_PATH,
    "entries.get",
    {200: "The entry.", 404: NOT_FOUND},
    schemas={200: SoatEntry},
)
async def show(request: web.Request) -> web.Response:
    """Show an entry of a memory."""
    return json_response(to_entry(await _call_for_entry(request, "entries.get")))


@SOAT_API.serve(
    routes,
    "PUT",
    ITEM_PATH,
    "entries.update",
    {200: "The entry.", 400: INVALID_FIELD, 404: NOT_FOUND},
    schemas={200: SoatEntry | Reference},
    body="{content?, tags?}. null clears tags.",
    body_schema=SoatEntryChange,
    needs_body=False,
)
async def update(request: web.Request) -> web.Response:
    """Change an entry, without deduplication."""
    await _check_memory(request)
    given = await read_fields(request, ("content", "tags"))
    if "content" in given:
        require_field(given, "content")
    if "tags" in given and given["tags"] is None:
        given["tags"] = []
    return json_response(to_entry(await _call_for_entry(request, "entries.update", given)))


@SOAT_API.serve(
    routes,
    "DELETE",
    ITEM_PATH,
    "entries.delete",
    {204: "The entry was deleted.", 404: NOT_FOUND},
)
async def delete(request: web.Request) -> web.Response:
    """Delete an entry of a memory."""
    await _call_for_entry(request, "entries.delete")
    return web.Response(status=204)


def to_entry(output: Json) -> Json:
    """Return an entry in SOAT's shape, plus Memrelay's own fields.

    An output without text stays as it is.
    """
    if "content" not in output:
        return output
    entry: Json = to_shape(SoatWritten, output)
    return entry


async def _check_memory(request: web.Request) -> None:
    """Report an unknown memory before any fault in the body. Raises NotFound."""
    if "read" in get_caller(request).scopes:
        await call_for_memory(request, "memories.get")


async def _call_for_entry(request: web.Request, name: str, given: Json | None = None) -> Any:
    entry = {"id": request.match_info["entry_id"]}
    return await call_for_memory(request, name, (given or {}) | entry, field="memory_id")
