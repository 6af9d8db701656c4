"""/api/v1/memories: named memories with SOAT's paths and shapes."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller
from memrelay.web.models.shapes import to_shape
from memrelay.web.models.soat.calls import (
    PAGE_SIZE,
    Json,
    call_by_id,
    call_each,
    find_project,
    list_all_pages,
    list_visible_pipelines,
    parse_owner,
    read_fields,
    require_field,
)
from memrelay.web.models.soat.errors import SOAT_API
from memrelay.web.models.soat.shapes import NewSoatMemory, SoatMemory, SoatMemoryChange
from memrelay.web.openapi.shapes import Reference
from memrelay.web.server.errors import BadRequest, Problem

routes = web.RouteTableDef()
NULLABLE_FIELDS = ("description", "tags")
MEMORY_NOT_FOUND = "Memory not found."
INVALID_FIELD = "A field is missing or invalid."


@SOAT_API.serve(
    routes,
    "POST",
    "/api/v1/memories",
    "memories.create",
    {201: "The memory.", 400: INVALID_FIELD},
    schemas={201: SoatMemory},
    body="{project_id, name, description?, tags?}",
    body_schema=NewSoatMemory,
)
async def create(request: web.Request) -> web.Response:
    """Create a memory."""
    given = await read_fields(request, ("project_id", "name", "description", "tags"))
    require_field(given, "name")
    project = given.pop("project_id", None)
    if project is None or project == "":
        project = _default_project(request)
    uid = await find_project(request, project)
    return json_response(
        to_memory(await call_operation(request, "memories.create", uid, given)), 201
    )


@SOAT_API.serve(
    routes,
    "GET",
    "/api/v1/memories",
    "memories.list",
    {200: "An array of memories, oldest first.", 400: INVALID_FIELD},
    schemas={200: list[SoatMemory]},
    query={
        "project_id": "Only the memories of this project.",
        "tags": "Only memories with this tag. Repeat it to match any of several tags.",
    },
)
async def list_all(request: web.Request) -> web.Response:
    """List the memories that the caller may see, optionally of one project or with tags."""
    refuse_unknown(request, ("project_id", "projectId", "tags"), lists=("tags",))
    project = request.query.get("project_id") or request.query.get("projectId")
    given = {"tags": [tag for tag in request.query.getall("tags", []) if tag]}
    if not project:
        return json_response(await _list_in_all_projects(request, given))
    uid = await find_project(request, project)
    found = await list_all_pages(request, "memories.list", uid, given)
    return json_response([to_memory(one) for one in found])


@SOAT_API.serve(
    routes,
    "GET",
    "/api/v1/memories/{memory_id}",
    "memories.get",
    {200: "The memory.", 404: MEMORY_NOT_FOUND},
    schemas={200: SoatMemory},
)
async def show(request: web.Request) -> web.Response:
    """Show a memory."""
    return json_response(to_memory(await call_for_memory(request, "memories.get")))


@SOAT_API.serve(
    routes,
    "PUT",
    "/api/v1/memories/{memory_id}",
    "memories.update",
    {200: "The memory.", 400: INVALID_FIELD, 404: MEMORY_NOT_FOUND},
    schemas={200: SoatMemory | Reference},
    body="{name?, description?, tags?}. null clears description or tags.",
    needs_body=False,
    body_schema=SoatMemoryChange,
)
async def update(request: web.Request) -> web.Response:
    """Change the given fields of a memory."""
    parse_owner("mem", request.match_info["memory_id"])
    given = await read_fields(request, ("name", *NULLABLE_FIELDS))
    if "name" in given:
        require_field(given, "name")
    cleared = [name for name in NULLABLE_FIELDS if name in given and given[name] is None]
    changed = {name: value for name, value in given.items() if value is not None}
    output = await call_for_memory(request, "memories.update", changed | {"clear": cleared})
    return json_response(to_memory(output))


@SOAT_API.serve(
    routes,
    "DELETE",
    "/api/v1/memories/{memory_id}",
    "memories.delete",
    {204: "The memory and its entries were deleted.", 404: MEMORY_NOT_FOUND},
)
async def delete(request: web.Request) -> web.Response:
    """Delete a memory and its entries."""
    await call_for_memory(request, "memories.delete")
    return web.Response(status=204)


async def call_for_memory(
    request: web.Request, name: str, given: Json | None = None, *, field: str = "id"
) -> Any:
    """Call an operation with the memory id of the path as its `field`."""
    memory_id = request.match_info["memory_id"]
    return await call_by_id(request, name, "mem", memory_id, (given or {}) | {field: memory_id})


def to_memory(output: Json) -> Json:
    """Return a memory in SOAT's shape, or its id if the output has no text."""
    memory: Json = to_shape(SoatMemory, output)
    return memory


def _default_project(request: web.Request) -> str:
    """Return the only project of the caller's key. Raises BadRequest if there are several."""
    caller = get_caller(request)
    if caller.sees_all or len(caller.pipelines) != 1:
        raise BadRequest("project_id is required")
    (project,) = caller.pipelines
    return project


async def _list_in_all_projects(request: web.Request, given: Json) -> list[Json]:
    """List the memories of all visible projects, oldest first. Raises Problem."""
    uids = await list_visible_pipelines(request)
    first_pages = await call_each(request, "memories.list", uids, given | {"limit": PAGE_SIZE})
    found: list[Json] = []
    for uid, first in zip(uids, first_pages, strict=True):
        if isinstance(first, Problem):
            raise first
        found += await list_all_pages(request, "memories.list", uid, given, first)
    return sorted(map(to_memory, found), key=lambda one: (one["created_at"], one["id"]))
