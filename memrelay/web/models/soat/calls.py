"""Calls from SOAT's routes to the operations, in the pipeline that an id contains."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, get_args

import orjson
from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.memory.models.named_memories.memories import Source
from memrelay.memory.records.ids import IdPrefix, uid_of
from memrelay.web.api.operations import call_operation, read_object
from memrelay.web.auth.access import list_visible
from memrelay.web.server.errors import BadRequest, NotAllowed, NotFound, Problem, problem_from
from memrelay.web.services import get_services

# Pipelines called concurrently.
MAX_CONCURRENT = 16
# Pipelines called by one request.
MAX_PIPELINES = 500
MAX_LISTED = 100_000
# The byte limit of a list, in messages of the maximum size: about 64 MiB.
MAX_LISTED_MESSAGES = 64
PAGE_SIZE = 1000
CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")
SOURCES = get_args(Source)
Json = dict[str, Any]


async def call_each(
    request: web.Request, name: str, uids: Iterable[str], input: Json
) -> list[Any | Problem]:
    """Call an operation in several pipelines. A failed call yields its Problem."""
    semaphore = asyncio.Semaphore(MAX_CONCURRENT)

    async def call_one(uid: str) -> Any:
        async with semaphore:
            try:
                return await call_operation(request, name, uid, input)
            except Problem as fault:
                return fault
            except BusError as fault:
                return problem_from(fault)

    return list(await asyncio.gather(*map(call_one, uids)))


async def list_all_pages(
    request: web.Request, name: str, uid: str, input: Json, first: Json | None = None
) -> list[Json]:
    """Return all items of a list, because SOAT's lists have no pages.

    `first` is the first page if it is known, with up to PAGE_SIZE items. Raises BadRequest if the
    list is too long.
    """
    max_bytes = MAX_LISTED_MESSAGES * get_services(request).options.message_bytes
    page = first or await call_operation(request, name, uid, input | {"limit": PAGE_SIZE})
    items: list[Json] = page["items"]
    size = len(orjson.dumps(items))
    while page["next_cursor"] is not None:
        if len(items) >= MAX_LISTED or size >= max_bytes:
            raise BadRequest(
                f"the list has more than {MAX_LISTED} items or {max_bytes} bytes; use the pages of "
                f"/v1/pipelines/{uid}/{name.partition('.')[0]}"
            )
        page = await call_operation(
            request, name, uid, input | {"limit": PAGE_SIZE, "cursor": page["next_cursor"]}
        )
        items += page["items"]
        size += len(orjson.dumps(page["items"]))
    return items


async def list_entries(
    request: web.Request, input: Json, limit: int, offset: int
) -> tuple[list[Json], int]:
    """Return (up to `limit` entries of a memory after the first `offset`, the total number).

    Calls the operation again for entries that do not fit into one answer. Raises NotFound.
    """
    name, memory_id = "entries.list", input["memory_id"]
    page = await call_by_id(
        request, name, "mem", memory_id, input | {"limit": limit, "offset": offset}
    )
    items: list[Json] = page["items"]
    while page["next_cursor"] is not None and len(items) < limit:
        rest = {"limit": limit - len(items), "cursor": page["next_cursor"]}
        page = await call_by_id(request, name, "mem", memory_id, input | rest)
        items += page["items"]
    return items, page["total"]


async def list_projects(request: web.Request) -> list[str]:
    """Return the uids of the pipelines that the caller may see. Raises BadRequest if too many."""
    uids = [one.deployed.uid for one in await list_visible(request)]
    if len(uids) > MAX_PIPELINES:
        raise BadRequest(
            f"the request covers {len(uids)} projects; at most {MAX_PIPELINES} are allowed. "
            "Add a project_id"
        )
    return uids


async def find_project(request: web.Request, project_id: Any) -> str:
    """Return the pipeline uid of a `project_id`.

    Raises BadRequest: it is not a string. NotAllowed: there is no such pipeline, or the caller may
    not see it.
    """
    if not isinstance(project_id, str):
        raise BadRequest("Invalid project ID")
    if project_id not in [one.deployed.uid for one in await list_visible(request)]:
        raise NotAllowed(
            f"the key has no project {project_id[:100]!r}; a project_id is the uid of a pipeline"
        )
    return project_id


def parse_owner(sort: IdPrefix, ident: str) -> str:
    """Return the pipeline uid in an id. Raises NotFound."""
    uid = uid_of(sort, ident)
    if not uid:
        raise not_found(sort, ident)
    return uid


async def call_by_id(
    request: web.Request, name: str, sort: IdPrefix, ident: str, input: Json
) -> Any:
    """Call an operation in the pipeline that an id contains.

    Callers that may not see the pipeline get the same NotFound as for an unknown id.
    """
    try:
        return await call_operation(request, name, parse_owner(sort, ident), input)
    except NotFound as error:
        raise error if str(error).startswith("Memory") else not_found(sort, ident) from error


def not_found(sort: IdPrefix, ident: str) -> NotFound:
    """Return the error for an unknown memory or entry."""
    text = "Memory not found: no memory" if sort == "mem" else "Memory entry not found: no entry"
    return NotFound(f"{text} has the id {ident[:128]!r}")


async def read_fields(request: web.Request, names: tuple[str, ...]) -> Json:
    """Return the JSON object in the body. Accepts camelCase names such as `projectId`.

    Raises BadRequest: a field is unknown, or given in both spellings with different values.
    """
    fields: Json = {}
    for spelling, value in (await read_object(request)).items():
        name = CAMEL_CASE.sub(r"_\1", spelling).lower()
        if fields.setdefault(name, value) != value:
            raise BadRequest(
                f"{name[:50]} is given in two spellings with different values; omit one"
            )
    for name in fields.keys() - set(names):
        raise BadRequest(f"unknown field {name[:50]!r}; known are {', '.join(names)}")
    return fields


def require_field(fields: Json, name: str) -> None:
    """Raise BadRequest if a field is missing, null, or empty."""
    value = fields.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRequest(f"{name} is required")


def rename_source_type(fields: Json) -> Json:
    """Rename `source_type` to the operation's `source`. Raises BadRequest if it is invalid."""
    if "source_type" not in fields:
        return fields
    if fields["source_type"] not in SOURCES:
        raise BadRequest(
            f"source_type must be {', '.join(map(repr, SOURCES[:-1]))} or {SOURCES[-1]!r}"
        )
    rest = {name: value for name, value in fields.items() if name != "source_type"}
    if rest.setdefault("source", fields["source_type"]) != fields["source_type"]:
        raise BadRequest(
            "source and source_type are names of the same field and have different values; omit one"
        )
    return rest
