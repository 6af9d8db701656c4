"""/api/v1/memories/{memory_id}/entries: what a memory holds, as SOAT's document has it. Later
versions' names stand beside."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import KEYED, described
from memrelay.web.soat.calls import every_page, needed, owner_of, read_fields, with_source
from memrelay.web.soat.memories import AWAY, CHANGED, WRONG, at_memory
from memrelay.web.soat.shapes import NewSoatEntry, SoatEntry, SoatEntryChange, SoatWritten

routes = web.RouteTableDef()
MISSING = "Memory not found, or Memory entry not found"
WRITTEN = (
    "content",
    "source",
    "source_type",
    "tags",
    "duplicate_threshold",
    "update_threshold",
    "mode",
)


@routes.post("/api/v1/memories/{memory_id}/entries")
@described(
    {
        201: "a new entry, with its action",
        200: "an entry that was there: skipped or updated",
        400: WRONG,
        404: MISSING,
    }
    | CHANGED,
    headers=KEYED,
    gives={201: SoatWritten, 200: SoatWritten},
    body="{content, source?, tags?, duplicate_threshold?, update_threshold?, mode?}",
    accepts=NewSoatEntry,
)
@needs("write")
async def create(request: web.Request) -> web.Response:
    """Writes an entry, unless one says the same already."""
    await _check_memory(request)
    given = {
        name: value
        for name, value in (await read_fields(request, WRITTEN)).items()
        if value is not None
    }
    needed(given, "content")
    told = await at_memory(request, "entries.create", with_source(given), field="memory_id")
    return json_response(entry_of(told), 201 if told["action"] == "created" else 200)


@routes.get("/api/v1/memories/{memory_id}/entries")
@described(
    {200: "an array of entries, the oldest first", 400: WRONG, 404: MISSING} | AWAY,
    gives={200: list[SoatEntry]},
    query={"tags": "only those with a tag that fits; several for any of them"},
)
@needs("read")
async def every(request: web.Request) -> web.Response:
    """All entries of a memory, or those of tags."""
    refuse_unknown(request, ("tags",), lists=("tags",))
    await _check_memory(request)
    ident = request.match_info["memory_id"]
    given = {"memory_id": ident, "tags": [tag for tag in request.query.getall("tags", []) if tag]}
    found = await every_page(request, "entries.list", owner_of("mem", ident), given)
    return json_response([entry_of(one) for one in found])


@routes.get("/api/v1/memories/{memory_id}/entries/{entry_id}")
@described({200: "the entry", 404: MISSING} | AWAY, gives={200: SoatEntry})
@needs("read")
async def show(request: web.Request) -> web.Response:
    """One entry of a memory."""
    return json_response(entry_of(await _at_entry(request, "entries.get")))


@routes.put("/api/v1/memories/{memory_id}/entries/{entry_id}")
@described(
    {200: "the entry", 400: WRONG, 404: MISSING} | CHANGED,
    headers=KEYED,
    gives={200: SoatEntry},
    body="{content?, tags?}; null clears the tags",
    accepts=SoatEntryChange,
)
@needs("write")
async def update(request: web.Request) -> web.Response:
    """Changes what an entry says; it is compared with no other."""
    await _check_memory(request)
    given = await read_fields(request, ("content", "tags"))
    if "content" in given:
        needed(given, "content")
    if "tags" in given and given["tags"] is None:
        given["tags"] = []
    return json_response(entry_of(await _at_entry(request, "entries.update", given)))


@routes.delete("/api/v1/memories/{memory_id}/entries/{entry_id}")
@described({204: "it is gone", 404: MISSING} | CHANGED, headers=KEYED)
@needs("delete")
async def delete(request: web.Request) -> web.Response:
    """Deletes an entry of a memory."""
    await _at_entry(request, "entries.delete")
    return web.Response(status=204)


def entry_of(told: dict[str, Any]) -> dict[str, Any]:
    """An entry in SOAT's shape, of this version and of later ones; with what only Memrelay
    tells."""
    return {name: value for name, value in told.items() if name != "version"} | {
        "source_type": told["source"]
    }


async def _check_memory(request: web.Request) -> None:
    """Before anything is said of the body. Raises NotFound, also for a memory that the caller may
    not see."""
    if "read" in caller_of(request).scopes:
        await at_memory(request, "memories.get")


async def _at_entry(request: web.Request, name: str, given: dict[str, Any] | None = None) -> Any:
    return await at_memory(
        request, name, (given or {}) | {"id": request.match_info["entry_id"]}, field="memory_id"
    )
