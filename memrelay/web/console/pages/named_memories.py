"""The pages of named memories: their list, and one memory with its entries.

The page of a memory has a text to test or write, and one entry to change.
"""

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.records.ids import guid_of
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import Answer, Wanted, ask
from memrelay.web.console.frame import Page, PageRoutes, answer_refresh, render, render_page
from memrelay.web.console.pipeline_values import find_served
from memrelay.web.console.search_hits import record_url

PAGE = Page(
    "Named memories",
    "/pipelines/{uid}/memories",
    menu="pipeline",
    order=20,
    parent="Pipelines",
)
QUERY = {"cursor": "The cursor of a later page."}
ERRORS = {404: "There is no such pipeline.", 422: "The cursor is invalid."}
PAGE_SIZE = 50
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
MEMORY_PAGE = Page("Named memory", "/pipelines/{uid}/memories/{memory_id}", parent="Named memories")
MEMORY_QUERY = {
    "entry": "The entry to show in detail.",
    "tag": "Only entries with this tag.",
    "cursor": "The cursor of a later page.",
}
MEMORY_ERRORS = {404: "There is no such pipeline, memory or entry.", 422: "The cursor is invalid."}
ENTRIES_PER_PAGE, MAX_STATES, MAX_MEMORIES = 50, 20, 200
memory_routes = PageRoutes(MEMORY_PAGE, errors=MEMORY_ERRORS, query=MEMORY_QUERY)


class MemoryRow(NamedTuple):
    """A named memory, its number of entries, and the time of its newest entry, "" for none."""

    memory: dict[str, Any]
    entries: int
    newest_at: str


@routes.page()
async def named_memories(request: web.Request) -> web.Response:
    """Show the named memories of a pipeline."""
    served = await find_served(request)
    values = await _read_values(request, served)
    return await render_page(request, PAGE, "named_memories.html", served, **values)


@routes.fragment(PAGE.path + "/rows")
async def named_memories_rows(request: web.Request) -> web.Response:
    """Return the list of the page."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _read_values(request, served)
        caller = get_caller(request)
        uid = served.deployed.uid
        return render("fragments/named_memories.html", uid=uid, caller=caller, **values)

    return await answer_refresh(request, served, make)


async def _read_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    cursor, uid = request.query.get("cursor", ""), served.deployed.uid
    values: dict[str, Any] = {"rows": [], "total": 0, "next_url": "", "fault": "", "cursor": cursor}
    wanted = Wanted("memories.list", {"limit": PAGE_SIZE, "cursor": cursor})
    (listed,) = await ask(request, uid, wanted)
    if listed.fault:
        return values | {"fault": listed.fault}
    memories, following = listed.output["items"], listed.output["next_cursor"]
    return values | {
        "rows": await _read_rows(request, uid, memories),
        "total": listed.output["total"],
        "next_url": f"?{urlencode({'cursor': following})}" if following else "",
    }


async def _read_rows(
    request: web.Request, uid: str, memories: list[dict[str, Any]]
) -> list[MemoryRow]:
    wanted = [
        Wanted("entries.list", {"memory_id": one["id"], "order": "desc", "limit": 1})
        for one in memories
    ]
    rows = []
    for memory, entries in zip(memories, await ask(request, uid, *wanted), strict=True):
        page = entries.output or {"items": [], "total": 0}
        newest = page["items"][0]["created_at"] if page["items"] else ""
        rows.append(MemoryRow(memory, page["total"], newest))
    return rows


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


@memory_routes.page(ident="named_memory.named_memory")
async def named_memory(request: web.Request) -> web.Response:
    """Show a named memory and its entries."""
    served, memory_id = await find_served(request), request.match_info["memory_id"]
    uid = served.deployed.uid
    memory, others = await ask(
        request,
        uid,
        Wanted("memories.get", {"id": memory_id}),
        Wanted("memories.list", {"limit": MAX_MEMORIES}),
    )
    return await render_page(
        request,
        MEMORY_PAGE,
        "named_memory.html",
        served,
        memory=memory.output,
        others=[one for one in (others.output or {"items": []})["items"] if one["id"] != memory_id],
        detail=await _read_detail(request, uid, memory_id),
        **await _list_values(request, served),
    )


@memory_routes.fragment(MEMORY_PAGE.path + "/rows", ident="named_memory.named_memory_rows")
async def named_memory_rows(request: web.Request) -> web.Response:
    """Return the entries of the page."""
    served = await find_served(request)

    async def make() -> web.Response:
        return render("fragments/entries.html", **await _list_values(request, served))

    return await answer_refresh(request, served, make)


async def _list_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list of entries."""
    memory_id, query = request.match_info["memory_id"], request.query
    tag, cursor = query.get("tag", ""), query.get("cursor", "")
    given = {"memory_id": memory_id, "order": "desc", "limit": ENTRIES_PER_PAGE, "cursor": cursor}
    given |= {"tags": [tag]} if tag else {}
    (answer,) = await ask(request, served.deployed.uid, Wanted("entries.list", given))
    page = answer.output or {"items": [], "total": 0, "next_cursor": ""}
    path = f"/pipelines/{served.deployed.uid}/memories/{quote(memory_id, safe='')}"

    def url(**values: str) -> str:
        kept = {name: value for name, value in values.items() if value}
        return f"{path}?{urlencode(kept)}" if kept else path

    return {
        "entries": page["items"],
        "total": page["total"],
        "next_url": url(tag=tag, cursor=page["next_cursor"] or "") if page["next_cursor"] else "",
        "fault": answer.fault,
        "tag": tag,
        "cursor": cursor,
        "url": url,
        "rows_url": f"{path}/rows?{urlencode({'tag': tag, 'cursor': cursor})}",
        "selected": query.get("entry", ""),
    }


async def _read_detail(request: web.Request, uid: str, memory_id: str) -> EntryDetail | None:
    """Return the selected entry with its history, None if none is selected or known now."""
    entry_id, store = request.query.get("entry", ""), built_in_store(uid, "memories")
    if not entry_id:
        return None
    given = {"id": entry_id, "memory_id": memory_id}
    (found,) = await ask(request, uid, Wanted("entries.get", given))
    if found.fault:
        return None
    guid = guid_of("me", store, entry_id)
    wanted = Wanted("records.history", {"guid": guid, "limit": MAX_STATES}, store)
    (history,) = await ask(request, uid, wanted)
    return _make_detail(uid, found.output, history, guid)


def _make_detail(uid: str, entry: dict[str, Any], history: Answer, guid: str) -> EntryDetail:
    store = built_in_store(uid, "memories")
    states = (history.output or {"items": []})["items"]
    return EntryDetail(
        entry,
        f"/v1/pipelines/{uid}/records/{quote(guid, safe='')}",
        quote(store, safe=""),
        record_url(uid, store, guid),
        states[0]["number"] if states else 0,
        [one for one in states[1:] if one["record"] is not None],
    )
