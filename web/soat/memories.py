"""/api/v1/memories: named memories, as SOAT's document has them."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import KEYED, described
from memrelay.web.server.errors import BadRequest, Problem
from memrelay.web.soat.calls import (
    PAGE,
    call,
    call_at,
    call_each,
    every_page,
    needed,
    owner_of,
    project_of,
    read_fields,
    seen_pipelines,
)
from memrelay.web.soat.shapes import NewSoatMemory, SoatMemory, SoatMemoryChange

routes = web.RouteTableDef()
FIELDS = ("id", "project_id", "name", "description", "tags", "created_at", "updated_at")
NULLABLE = ("description", "tags")
MISSING = "Memory not found"
AWAY = {503: "no worker serves the project", 504: "no answer in time"}
CHANGED = AWAY | {422: "the Idempotency-Key stands for another call"}
WRONG = "a field is missing, or not as it should be"


@routes.post("/api/v1/memories")
@described(
    {201: "the memory", 400: WRONG} | CHANGED,
    headers=KEYED,
    gives={201: SoatMemory},
    body="{project_id, name, description?, tags?}",
    accepts=NewSoatMemory,
)
@needs("write")
async def create(request: web.Request) -> web.Response:
    """Makes a memory."""
    given = await read_fields(request, ("project_id", "name", "description", "tags"))
    needed(given, "name")
    uid = await project_of(request, _project(request, given.pop("project_id", None)))
    return json_response(memory_of(await call(request, "memories.create", uid, given)), 201)


@routes.get("/api/v1/memories")
@described(
    {200: "an array of memories, the oldest first", 400: WRONG} | AWAY,
    gives={200: list[SoatMemory]},
    query={
        "project_id": "only those of this project",
        "tags": "only those with a tag that fits; several for any of them",
    },
)
@needs("read")
async def every(request: web.Request) -> web.Response:
    """All memories that the caller may see, or those of a project, or of tags."""
    refuse_unknown(request, ("project_id", "projectId", "tags"), lists=("tags",))
    project = request.query.get("project_id") or request.query.get("projectId")
    given = {"tags": [tag for tag in request.query.getall("tags", []) if tag]}
    if project:
        found = await every_page(
            request, "memories.list", await project_of(request, project), given
        )
        return json_response([memory_of(one) for one in found])
    return json_response(await _everywhere(request, given))


@routes.get("/api/v1/memories/{memory_id}")
@described({200: "the memory", 404: MISSING} | AWAY, gives={200: SoatMemory})
@needs("read")
async def show(request: web.Request) -> web.Response:
    """One memory."""
    return json_response(memory_of(await at_memory(request, "memories.get")))


@routes.put("/api/v1/memories/{memory_id}")
@described(
    {200: "the memory", 400: WRONG, 404: MISSING} | CHANGED,
    headers=KEYED,
    gives={200: SoatMemory},
    body="{name?, description?, tags?}; null clears the last two",
    accepts=SoatMemoryChange,
)
@needs("write")
async def update(request: web.Request) -> web.Response:
    """Changes what is named of a memory."""
    owner_of("mem", request.match_info["memory_id"])
    given = await read_fields(request, ("name", *NULLABLE))
    if "name" in given:
        needed(given, "name")
    cleared = [name for name in NULLABLE if name in given and given[name] is None]
    kept = {name: value for name, value in given.items() if value is not None}
    return json_response(
        memory_of(await at_memory(request, "memories.update", kept | {"clear": cleared}))
    )


@routes.delete("/api/v1/memories/{memory_id}")
@described({204: "it is gone, with its entries", 404: MISSING} | CHANGED, headers=KEYED)
@needs("delete")
async def delete(request: web.Request) -> web.Response:
    """Deletes a memory with its entries."""
    await at_memory(request, "memories.delete")
    return web.Response(status=204)


async def at_memory(
    request: web.Request, name: str, given: dict[str, Any] | None = None, *, field: str = "id"
) -> Any:
    """What an operation on the memory of the path gives."""
    ident = request.match_info["memory_id"]
    return await call_at(request, name, "mem", ident, (given or {}) | {field: ident})


def memory_of(told: dict[str, Any]) -> dict[str, Any]:
    """A memory in SOAT's shape."""
    return {name: told[name] for name in FIELDS}


def _project(request: web.Request, given: Any) -> Any:
    """The project that is named, else the one that the key is for. Raises BadRequest where there is
    neither."""
    if given is None or given == "":
        caller = caller_of(request)
        if caller.sees_all or len(caller.pipelines) != 1:
            raise BadRequest("project_id is required")
        (given,) = caller.pipelines
    return given


async def _everywhere(request: web.Request, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Of every project that the caller may see, the oldest first. Raises what any of them does."""
    uids = await seen_pipelines(request)
    found: list[dict[str, Any]] = []
    for uid, first in zip(
        uids, await call_each(request, "memories.list", uids, given | {"limit": PAGE}), strict=True
    ):
        if isinstance(first, Problem):
            raise first
        found += await every_page(request, "memories.list", uid, given, first)
    return sorted(map(memory_of, found), key=lambda one: (one["created_at"], one["id"]))
