"""/api/v1/memories: named memories with SOAT's paths and shapes."""

from functools import partial
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
    list_projects,
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
# Returns a memory in SOAT's shape, or its id if the output has no text.
_to_memory = partial(to_shape, SoatMemory)


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
    fields = await read_fields(request, ("project_id", "name", "description", "tags"))
    require_field(fields, "name")
    project = fields.pop("project_id", None)
    if project is None or project == "":
        project = _default_project(request)
    uid = await find_project(request, project)
    output = await call_operation(request, "memories.create", uid, fields)
    return json_response(_to_memory(output), 201)


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
    input = {"tags": [tag for tag in request.query.getall("tags", []) if tag]}
    if not project:
        return json_response(await _list_in_all_projects(request, input))
    uid = await find_project(request, project)
    memories = await list_all_pages(request, "memories.list", uid, input)
    return json_response([*map(_to_memory, memories)])


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
    return json_response(_to_memory(await call_for_memory(request, "memories.get")))


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
    fields = await read_fields(request, ("name", *NULLABLE_FIELDS))
    if "name" in fields:
        require_field(fields, "name")
    cleared = [name for name in NULLABLE_FIELDS if name in fields and fields[name] is None]
    changed = {name: value for name, value in fields.items() if value is not None}
    output = await call_for_memory(request, "memories.update", changed | {"clear": cleared})
    return json_response(_to_memory(output))


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
    request: web.Request, name: str, input: Json | None = None, *, field: str = "id"
) -> Any:
    """Call an operation with the memory id of the path as its `field`."""
    memory_id = request.match_info["memory_id"]
    return await call_by_id(request, name, "mem", memory_id, (input or {}) | {field: memory_id})


def _default_project(request: web.Request) -> str:
    """Return the only project of the caller's key. Raises BadRequest if there are several."""
    caller = get_caller(request)
    if caller.sees_all or len(caller.pipelines) != 1:
        raise BadRequest("project_id is required")
    (project,) = caller.pipelines
    return project


async def _list_in_all_projects(request: web.Request, input: Json) -> list[Json]:
    """List the memories of all visible projects, oldest first. Raises Problem."""
    uids = await list_projects(request)
    first_pages = await call_each(request, "memories.list", uids, input | {"limit": PAGE_SIZE})
    memories: list[Json] = []
    for uid, first in zip(uids, first_pages, strict=True):
        if isinstance(first, Problem):
            raise first
        memories += await list_all_pages(request, "memories.list", uid, input, first)
    return sorted(map(_to_memory, memories), key=lambda one: (one["created_at"], one["id"]))
