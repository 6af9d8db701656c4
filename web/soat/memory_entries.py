"""/api/v1/memory-entries: what memories hold, by the paths and in the shapes of SOAT's later
versions (from 0.13 on)."""

from typing import Any

from aiohttp import web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operation_input import read_object
from memrelay.web.auth.access import needs
from memrelay.web.openapi.route_docs import KEYED, described
from memrelay.web.server.errors import BadRequest
from memrelay.web.soat.calls import Given, call_at, entries_within, with_source
from memrelay.web.soat.memories import AWAY, CHANGED, WRONG
from memrelay.web.soat.shapes import (
    LaterEntries,
    LaterEntry,
    LaterEntryChange,
    LaterWritten,
    NewLaterEntry,
)

routes = web.RouteTableDef()
ENTRIES = "/api/v1/memory-entries"
MISSING = "Memory not found"
NO_ENTRY = "Memory entry not found"
WRITTEN = (
    "memory_id",
    "content",
    "source_type",
    "source",
    "tags",
    "metadata",
    "duplicate_threshold",
    "mode",
)
CHANGEABLE = ("content", "tags", "metadata")
LISTED = ("memory_id", "limit", "offset", "tags", "include_invalidated")
LIMIT, MOST, FURTHEST = 50, 100, 2**63 - 1
NOT_MERGED = (
    "skip"  # what these versions do of themselves: a write is a new entry, or it is there already
)
NOTHING = (
    "source_generation_id",
    "source_conversation_id",
    "invalidated_at",
    "superseded_by_entry_id",
)


@routes.post(ENTRIES)
@described(
    {
        201: "a new entry, with its action",
        200: "an entry that was there: skipped, or updated where `mode` says so",
        400: WRONG,
        404: MISSING,
    }
    | CHANGED,
    headers=KEYED,
    gives={201: LaterWritten, 200: LaterWritten},
    body="{memory_id, content, source_type?, tags?, metadata?, duplicate_threshold?, mode?}",
    accepts=NewLaterEntry,
)
@needs("write")
async def create(request: web.Request) -> web.Response:
    """Writes an entry, unless one says the same already; it is added to none where no `mode` says
    so."""
    read = await _fields(request, WRITTEN, needed=("memory_id", "content"))
    given = {"mode": NOT_MERGED} | {
        name: value for name, value in read.items() if value is not None
    }
    told = await call_at(
        request, "entries.create", "mem", _text(given, "memory_id"), with_source(given)
    )
    return json_response(later_entry(told), 201 if told["action"] == "created" else 200)


@routes.get(ENTRIES)
@described(
    {200: "{data, total, limit, offset}, the oldest first", 400: WRONG, 404: MISSING} | AWAY,
    query={
        "memory_id": "the memory whose entries they are; it must be given",
        "limit": "how many at most, from 1 to 100",
        "offset": "how many to pass over",
        "tags": "only those with a tag that fits; several for any of them",
        "include_invalidated": "taken, and makes no difference: no entry is invalidated here",
    },
    gives={200: LaterEntries},
)
@needs("read")
async def every(request: web.Request) -> web.Response:
    """The entries of a memory, a part at a time."""
    refuse_unknown(request, LISTED, lists=("tags",))
    query = request.query
    ident = query.get("memory_id", "")
    if not ident:
        raise _lacking(["memory_id"])
    limit, offset = (
        min(max(_number(query.get("limit", ""), LIMIT), 1), MOST),
        max(_number(query.get("offset", ""), 0), 0),
    )
    given = {"memory_id": ident, "tags": [tag for tag in query.getall("tags", []) if tag]}
    found, total = await entries_within(request, given, limit, offset)
    return json_response(
        {
            "data": [later_entry(one) for one in found],
            "total": total,
            "limit": limit,
            "offset": offset,
        }
    )


@routes.get(f"{ENTRIES}/{{entry_id}}")
@described({200: "the entry", 404: NO_ENTRY} | AWAY, gives={200: LaterEntry})
@needs("read")
async def show(request: web.Request) -> web.Response:
    """One entry, whichever memory it is in."""
    return json_response(later_entry(await _at_entry(request, "entries.get", {})))


@routes.put(f"{ENTRIES}/{{entry_id}}")
@described(
    {200: "the entry", 400: WRONG, 404: NO_ENTRY} | CHANGED,
    headers=KEYED,
    gives={200: LaterEntry},
    body="{content?, tags?, metadata?}; null clears the last two",
    accepts=LaterEntryChange,
)
@needs("write")
async def update(request: web.Request) -> web.Response:
    """Changes what an entry says; it is compared with no other."""
    given = await _fields(request, CHANGEABLE)
    if "content" in given and not given["content"]:
        raise BadRequest("content is required: leave it out, or say what the entry is to say")
    cleared: Given = {"tags": [], "metadata": {}}
    given |= {
        name: empty for name, empty in cleared.items() if name in given and given[name] is None
    }
    return json_response(later_entry(await _at_entry(request, "entries.update", given)))


@routes.delete(f"{ENTRIES}/{{entry_id}}")
@described({204: "it is gone", 404: NO_ENTRY} | CHANGED, headers=KEYED)
@needs("delete")
async def delete(request: web.Request) -> web.Response:
    """Deletes an entry."""
    await _at_entry(request, "entries.delete", {})
    return web.Response(status=204)


def later_entry(told: Given) -> Given:
    """An entry in the shape of SOAT's later versions, with what only Memrelay tells."""
    common = {name: value for name, value in told.items() if name != "version"}
    return (
        common
        | {
            "source_type": told["source"],
            "tags": told["tags"] or None,
            "metadata": told.get("metadata") or None,
        }
        | dict.fromkeys(NOTHING)
    )


async def _at_entry(request: web.Request, name: str, given: Given) -> Any:
    ident = request.match_info["entry_id"]
    return await call_at(request, name, "me", ident, given | {"id": ident})


async def _fields(
    request: web.Request, names: tuple[str, ...], needed: tuple[str, ...] = ()
) -> Given:
    """The object in the body. Raises BadRequest with all that there is not, or with all that is
    missing."""
    given = await read_object(request)
    if unknown := [name for name in given if name not in names]:
        raise BadRequest(
            f"Unknown field(s): {', '.join(name[:50] for name in unknown[:20])}; there are {', '.join(names)}",
            unknownFields=unknown[:20],
        )
    if lacking := [name for name in needed if given.get(name) in (None, "")]:
        raise _lacking(lacking)
    return given


def _lacking(names: list[str]) -> BadRequest:
    return BadRequest(f"Missing required field(s): {', '.join(names)}", missingFields=names)


def _text(given: Given, name: str) -> str:
    """Raises BadRequest for what is no text."""
    value = given[name]
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be text")
    return value


def _number(text: str, default: int) -> int:
    """What is no number is the default, as SOAT has it."""
    try:
        return max(-1, min(int(text), FURTHEST)) if len(text) <= 20 else default
    except ValueError:
        return default
