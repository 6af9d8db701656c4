"""How SOAT's routes reach the operations: by the pipeline that an id carries, through the one
authoriser."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, get_args

import orjson
from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.request import NewCall
from memrelay.memory.operation import all_operations
from memrelay.memory.records.ids import Sort, uid_of
from memrelay.memory.records.memory_view import Source
from memrelay.web.api.messages import producer_id
from memrelay.web.api.operation_input import checked_input, read_object
from memrelay.web.api.operations import NOBODY, answer_to
from memrelay.web.auth.access import caller_of
from memrelay.web.server.errors import BadRequest, NotAllowed, NotFound, Problem, from_fault
from memrelay.web.server.services import services_of

TOGETHER = 16  # pipelines that are asked at once
MOST_PIPELINES = 500  # that one request asks
MOST_LISTED = 100_000
MESSAGES_LISTED = 64  # of the longest that may be, as many bytes are listed, about: 64 MiB
PAGE = 1000
HUMP = re.compile(r"(?<=[a-z])([A-Z])")
SOURCES = get_args(Source)
Given = dict[str, Any]


async def call(request: web.Request, name: str, uid: str, given: Given) -> Any:
    """What the operation gives, in that pipeline. Raises what its refusal is over HTTP."""
    operation = all_operations()[name]
    caller = caller_of(request)
    caller.check(operation.access, uid)
    await services_of(request).directory.find(uid)
    data = checked_input(operation, given)
    return await answer_to(
        request,
        NewCall(
            uid,
            name,
            data,
            operation.mutates,
            "",
            caller.name or NOBODY,
            producer_id(request) if operation.mutates else "",
        ),
    )


async def call_each(
    request: web.Request, name: str, uids: Iterable[str], given: Given
) -> list[Any | Problem]:
    """The same in several pipelines, in their order; a fault in the place of what one gives."""
    turns = asyncio.Semaphore(TOGETHER)

    async def one(uid: str) -> Any:
        async with turns:
            try:
                return await call(request, name, uid, given)
            except Problem as fault:
                return fault
            except BusError as fault:
                return from_fault(fault)

    return list(await asyncio.gather(*map(one, uids)))


async def every_page(
    request: web.Request, name: str, uid: str, given: Given, first: Given | None = None
) -> list[Given]:
    """All items of a list, since SOAT's lists have no pages; after the `first` page, where it is
    known, with PAGE items.

    Raises BadRequest for too many, or too long ones.
    """
    most = MESSAGES_LISTED * services_of(request).options.message_bytes
    page = first or await call(request, name, uid, given | {"limit": PAGE})
    items: list[Given] = page["items"]
    size = len(orjson.dumps(items))
    while page["next_cursor"] is not None:
        if len(items) >= MOST_LISTED or size >= most:
            raise BadRequest(
                f"there are more than {MOST_LISTED}, or than {most} bytes of them; "
                f"/v1/pipelines/{uid}/{name.partition('.')[0]} lists them by page"
            )
        page = await call(
            request, name, uid, given | {"limit": PAGE, "cursor": page["next_cursor"]}
        )
        items += page["items"]
        size += len(orjson.dumps(page["items"]))
    return items


async def entries_within(
    request: web.Request, given: Given, limit: int, offset: int
) -> tuple[list[Given], int]:
    """(items, how many there are in all) of the entries of `given["memory_id"]`: `limit` at most,
    after the first `offset`.

    What is too long for one answer of the operation comes in several. Raises NotFound.
    """
    name, ident = "entries.list", given["memory_id"]
    page = await call_at(request, name, "mem", ident, given | {"limit": limit, "offset": offset})
    items: list[Given] = page["items"]
    while page["next_cursor"] is not None and len(items) < limit:
        rest = {"limit": limit - len(items), "cursor": page["next_cursor"]}
        page = await call_at(request, name, "mem", ident, given | rest)
        items += page["items"]
    return items, page["total"]


async def seen_pipelines(request: web.Request) -> list[str]:
    """The uids of all pipelines that the caller may see. Raises BadRequest for too many."""
    sees = caller_of(request).sees
    uids = [
        one.deployed.uid
        for one in await services_of(request).directory.all()
        if sees(one.deployed.uid)
    ]
    if len(uids) > MOST_PIPELINES:
        raise BadRequest(
            f"these would be {len(uids)} projects, and {MOST_PIPELINES} are asked at most: name a project_id"
        )
    return uids


async def project_of(request: web.Request, given: Any) -> str:
    """The pipeline that a `project_id` is. Raises BadRequest for what is no text, and NotAllowed
    where there is no such
    pipeline, or the caller may not see it."""
    if not isinstance(given, str):
        raise BadRequest("Invalid project ID")
    uids = [one.deployed.uid for one in await services_of(request).directory.all()]
    if given not in uids or not caller_of(request).sees(given):
        raise NotAllowed(f"no project {given[:100]!r} is yours: a project_id is a pipeline's uid")
    return given


def owner_of(sort: Sort, ident: str) -> str:
    """The pipeline that an id carries. Raises NotFound."""
    uid = uid_of(sort, ident)
    if not uid:
        raise missing(sort, ident)
    return uid


async def call_at(request: web.Request, name: str, sort: Sort, ident: str, given: Given) -> Any:
    """What an operation gives in the pipeline that the id carries; who may not see that hears that
    there is no such id."""
    try:
        return await call(request, name, owner_of(sort, ident), given)
    except NotFound as error:
        raise error if str(error).startswith("Memory") else missing(sort, ident) from error


def missing(sort: Sort, ident: str) -> NotFound:
    """The same whether there is none, or the caller may not know of it."""
    what = "Memory not found: no memory" if sort == "mem" else "Memory entry not found: no entry"
    return NotFound(f"{what} has the id {ident[:128]!r}")


async def read_fields(request: web.Request, names: tuple[str, ...]) -> Given:
    """The object in the body, whose fields may be spelt `projectId` too. Raises BadRequest for a
    field that there is not."""
    given: Given = {}
    for spelt, value in (await read_object(request)).items():
        name = HUMP.sub(r"_\1", spelt).lower()
        if given.setdefault(name, value) != value:
            raise BadRequest(
                f"{name[:50]} is given twice, in two spellings, and is not the same in both: leave one out"
            )
    for name in given.keys() - set(names):
        raise BadRequest(f"there is no field {name[:50]!r} here; there are {', '.join(names)}")
    return given


def needed(given: Given, name: str) -> None:
    """Raises BadRequest where a field is missing, null or empty."""
    value = given.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRequest(f"{name} is required")


def with_source(given: Given) -> Given:
    """What is written, with its `source_type` under the name of the operation. Raises BadRequest
    where it is none, or two."""
    if "source_type" not in given:
        return given
    if given["source_type"] not in SOURCES:
        raise BadRequest(
            f"source_type must be {', '.join(map(repr, SOURCES[:-1]))} or {SOURCES[-1]!r}"
        )
    rest = {name: value for name, value in given.items() if name != "source_type"}
    if rest.setdefault("source", given["source_type"]) != given["source_type"]:
        raise BadRequest(
            "source and source_type are two names of one field, and are not the same here: leave one out"
        )
    return rest
