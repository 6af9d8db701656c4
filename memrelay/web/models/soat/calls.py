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
from memrelay.web.auth.access import get_caller
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
    request: web.Request, name: str, uids: Iterable[str], given: Json
) -> list[Any | Problem]:
    """Call an operation in several pipelines. A failed call yields its Problem."""
    semaphore = asyncio.Semaphore(MAX_CONCURRENT)

    async def call_one(uid: str) -> Any:
        async with semaphore:
            try:
                return await call_operation(request, name, uid, given)
            except Problem as fault:
                return fault
            except BusError as fault:
                return problem_from(fault)

    return list(await asyncio.gather(*map(call_one, uids)))


async def list_all_pages(
    request: web.Request, name: str, uid: str, given: Json, first: Json | None = None
) -> list[Json]:
    """Return all items of a list, because SOAT's lists have no pages.

    `first` is the first page if it is known, with up to PAGE_SIZE items. Raises BadRequest if the
    list is too long.
    """
    max_bytes = MAX_LISTED_MESSAGES * get_services(request).options.message_bytes
    page = first or await call_operation(request, name, uid, given | {"limit": PAGE_SIZE})
    items: list[Json] = page["items"]
    size = len(orjson.dumps(items))
    while page["next_cursor"] is not None:
        if len(items) >= MAX_LISTED or size >= max_bytes:
            raise BadRequest(
                f"the list has more than {MAX_LISTED} items or {max_bytes} bytes; use the pages of "
                f"/v1/pipelines/{uid}/{name.partition('.')[0]}"
            )
        page = await call_operation(
            request, name, uid, given | {"limit": PAGE_SIZE, "cursor": page["next_cursor"]}
        )
        items += page["items"]
        size += len(orjson.dumps(page["items"]))
    return items


async def list_entries(
    request: web.Request, given: Json, limit: int, offset: int
) -> tuple[list[Json], int]:
    """Return (up to `limit` entries of a memory after the first `offset`, the total number).

    Calls the operation again for entries that do not fit into one answer. Raises NotFound.
    """
    name, memory_id = "entries.list", given["memory_id"]
    page = await call_by_id(
        request, name, "mem", memory_id, given | {"limit": limit, "offset": offset}
    )
    items: list[Json] = page["items"]
    while page["next_cursor"] is not None and len(items) < limit:
        rest = {"limit": limit - len(items), "cursor": page["next_cursor"]}
        page = await call_by_id(request, name, "mem", memory_id, given | rest)
        items += page["items"]
    return items, page["total"]


async def list_visible_pipelines(request: web.Request) -> list[str]:
    """Return the uids of the pipelines that the caller may see. Raises BadRequest if too many."""
    sees = get_caller(request).sees
    pipelines = await get_services(request).directory.list_pipelines()
    uids = [one.deployed.uid for one in pipelines if sees(one.deployed.uid)]
    if len(uids) > MAX_PIPELINES:
        raise BadRequest(
            f"the request covers {len(uids)} projects; at most {MAX_PIPELINES} are allowed. "
            "Add a project_id"
        )
    return uids


async def find_project(request: web.Request, given: Any) -> str:
    """Return the pipeline uid of a `project_id`.

    Raises BadRequest: it is not a string. NotAllowed: there is no such pipeline, or the caller may
    not see it.
    """
    if not isinstance(given, str):
        raise BadRequest("Invalid project ID")
    pipelines = await get_services(request).directory.list_pipelines()
    is_active = given in [one.deployed.uid for one in pipelines]
    if not is_active or not get_caller(request).sees(given):
        raise NotAllowed(
            f"the key has no project {given[:100]!r}; a project_id is the uid of a pipeline"
        )
    return given


def parse_owner(sort: IdPrefix, ident: str) -> str:
    """Return the pipeline uid in an id. Raises NotFound."""
    uid = uid_of(sort, ident)
    if not uid:
        raise not_found(sort, ident)
    return uid


async def call_by_id(
    request: web.Request, name: str, sort: IdPrefix, ident: str, given: Json
) -> Any:
    """Call an operation in the pipeline that an id contains.

    Callers that may not see the pipeline get the same NotFound as for an unknown id.
    """
    try:
        return await call_operation(request, name, parse_owner(sort, ident), given)
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
    given: Json = {}
    for spelling, value in (await read_object(request)).items():
        name = CAMEL_CASE.sub(r"_\1", spelling).lower()
        if given.setdefault(name, value) != value:
            raise BadRequest(
                f"{name[:50]} is given in two spellings with different values; omit one"
            )
    for name in given.keys() - set(names):
        raise BadRequest(f"unknown field {name[:50]!r}; known are {', '.join(names)}")
    return given


def require_field(given: Json, name: str) -> None:
    """Raise BadRequest if a field is missing, null, or empty."""
    value = given.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRequest(f"{name} is required")


def rename_source_type(given: Json) -> Json:
    """Rename `source_type` to the operation's `source`. Raises BadRequest if it is invalid."""
    if "source_type" not in given:
        return given
    if given["source_type"] not in SOURCES:
        raise BadRequest(
            f"source_type must be {', '.join(map(repr, SOURCES[:-1]))} or {SOURCES[-1]!r}"
        )
    rest = {name: value for name, value in given.items() if name != "source_type"}
    if rest.setdefault("source", given["source_type"]) != given["source_type"]:
        raise BadRequest(
            "source and source_type are names of the same field and have different values; omit one"
        )
    return rest
