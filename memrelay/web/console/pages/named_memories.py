"""The pages of named memories: their list, and one memory with its entries.

The page of a memory has a text to test or write, and one entry to change.
"""

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.records.ids import guid_of
from memrelay.web.api.directory import Served
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.console.search_hits import record_url

PAGE = Page(
    "Named memories",
    "/pipelines/{uid}/memories",
    menu="pipeline",
    order=20,
    parent="Pipelines",
)
AS_OF = "The state of then: a time in UTC, or a change as in n:1204."
QUERY = {"cursor": "The cursor of a later page.", "as_of": AS_OF}
GONE = "The state of then is no longer known."
ERRORS = {404: "There is no such pipeline.", 410: GONE, 422: "A parameter is invalid."}
PAGE_SIZE = 50
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
MEMORY_PAGE = Page("Named memory", "/pipelines/{uid}/memories/{memory_id}", parent="Named memories")
MEMORY_QUERY = {
    "entry": "The entry to show in detail.",
    "tag": "Only entries with this tag.",
    "cursor": "The cursor of a later page.",
    "as_of": AS_OF,
}
MEMORY_ERRORS = {
    404: "There is no such pipeline, memory or entry.",
    410: GONE,
    422: "A parameter is invalid.",
}
ENTRIES_PER_PAGE, MAX_STATES, MAX_MEMORIES = 50, 20, 200
memory_routes = PageRoutes(MEMORY_PAGE, errors=MEMORY_ERRORS, query=MEMORY_QUERY)


class MemoryRow(NamedTuple):
    """A named memory, its number of entries, and the time of its newest entry, "" for none."""

    memory: dict[str, Any]
    entries: int
    newest_at: str


@routes.pipeline_page("named_memories.html")
async def named_memories(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the named memories of a pipeline."""
    return await _list_memories(request, served)


@routes.part("/rows", "fragments/named_memories.html")
async def named_memories_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of the page."""
    return await _list_memories(request, served)


async def _list_memories(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    cursor, uid = request.query.get("cursor", ""), served.deployed.uid
    as_of = request.query.get("as_of", "")
    values: dict[str, Any] = {"rows": [], "total": 0, "next_url": "", "fault": ""}
    values |= {"cursor": cursor, "as_of": as_of}
    call = Call("memories.list", {"limit": PAGE_SIZE, "cursor": cursor}, as_of=as_of)
    (listed,) = await ask(request, uid, call)
    if listed.fault:
        return values | {"fault": listed.fault}
    memories, following = listed.output["items"], listed.output["next_cursor"]
    return values | {
        "rows": await _read_rows(request, uid, memories, as_of),
        "total": listed.output["total"],
        "next_url": _make_query(cursor=following, as_of=as_of) if following else "",
    }


async def _read_rows(
    request: web.Request, uid: str, memories: list[dict[str, Any]], as_of: str
) -> list[MemoryRow]:
    last = {"order": "desc", "limit": 1}
    calls = [Call("entries.list", {"memory_id": one["id"]} | last, as_of=as_of) for one in memories]
    rows = []
    for memory, entries in zip(memories, await ask(request, uid, *calls), strict=True):
        page = entries.output or {"items": [], "total": 0}
        newest = page["items"][0]["created_at"] if page["items"] else ""
        rows.append(MemoryRow(memory, page["total"], newest))
    return rows


def _make_query(**values: str) -> str:
    """Return the query string with the values that are set."""
    query = urlencode({name: value for name, value in values.items() if value})
    return f"?{query}" if query else ""


class EntryDetail(NamedTuple):
    """The entry that is shown in detail.

    `record` is the address of its record below /v1, and `page` that of the record's page.
    `number` is that of the present state. `earlier` has the earlier states, the latest first.
    """

    entry: dict[str, Any]
    record: str
    store: str
    page: str
    number: int
    earlier: list[dict[str, Any]]


@memory_routes.pipeline_page("named_memory.html", ident="named_memory.named_memory")
async def named_memory(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a named memory and its entries."""
    uid, memory_id = served.deployed.uid, request.match_info["memory_id"]
    as_of = request.query.get("as_of", "")
    memory, others = await ask(
        request,
        uid,
        Call("memories.get", {"id": memory_id}, as_of=as_of),
        Call("memories.list", {"limit": MAX_MEMORIES}, as_of=as_of),
    )
    every = others.output["items"] if others.output else []
    return {
        "memory": memory.output,
        "others": [one for one in every if one["id"] != memory_id],
        "detail": await _read_detail(request, uid, memory_id),
        **await _list_entries(request, served),
    }


@memory_routes.part("/rows", "fragments/entries.html", ident="named_memory.named_memory_rows")
async def named_memory_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the entries of the page."""
    return await _list_entries(request, served)


async def _list_entries(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list of entries."""
    memory_id, query = request.match_info["memory_id"], request.query
    tag, cursor, as_of = query.get("tag", ""), query.get("cursor", ""), query.get("as_of", "")
    input = {"memory_id": memory_id, "order": "desc", "limit": ENTRIES_PER_PAGE, "cursor": cursor}
    input |= {"tags": [tag]} if tag else {}
    call = Call("entries.list", input, as_of=as_of)
    (answer,) = await ask(request, served.deployed.uid, call)
    page = answer.output or {"items": [], "total": 0, "next_cursor": ""}
    path = f"/pipelines/{served.deployed.uid}/memories/{quote(memory_id, safe='')}"

    def url(**values: str) -> str:
        return f"{path}{_make_query(**({'as_of': as_of} | values))}"

    return {
        "entries": page["items"],
        "total": page["total"],
        "next_url": url(tag=tag, cursor=page["next_cursor"] or "") if page["next_cursor"] else "",
        "fault": answer.fault,
        "tag": tag,
        "cursor": cursor,
        "url": url,
        "as_of": as_of,
        "rows_url": f"{path}/rows{_make_query(tag=tag, cursor=cursor, as_of=as_of)}",
        "selected": query.get("entry", ""),
    }


async def _read_detail(request: web.Request, uid: str, memory_id: str) -> EntryDetail | None:
    """Return the selected entry with its history, None if none is selected or known now."""
    entry_id, store = request.query.get("entry", ""), built_in_store(uid, "memories")
    if not entry_id:
        return None
    as_of = request.query.get("as_of", "")
    selected = Call("entries.get", {"id": entry_id, "memory_id": memory_id}, as_of=as_of)
    (entry,) = await ask(request, uid, selected)
    if entry.fault:
        return None
    guid = guid_of("me", store, entry_id)
    states_call = Call("records.history", {"guid": guid, "limit": MAX_STATES}, store, as_of)
    (history,) = await ask(request, uid, states_call)
    states = history.output["items"] if history.output else []
    return EntryDetail(
        entry.output,
        f"/v1/pipelines/{uid}/records/{quote(guid, safe='')}",
        quote(store, safe=""),
        record_url(uid, store, guid),
        states[0]["number"] if states else 0,
        [one for one in states[1:] if one["record"] is not None],
    )
