"""The page "Memory": the records of a store, and a search in it with the reasons for each hit."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

import orjson
from aiohttp import hdrs, web
from multidict import MultiMapping

from memrelay.memory.search.search import Mode
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.format import capitalize_first
from memrelay.web.console.frame import (
    HEADERS,
    Page,
    PageRoutes,
    find_served,
    load_macro,
    refuse_fault,
)
from memrelay.web.console.search_hits import Hits, read_hits, record_url
from memrelay.web.openapi.route_docs import documented
from memrelay.web.server.errors import BadRequest, Gone, Unprocessable

PAGE = Page("Memory", "/pipelines/{uid}/memory", menu="pipeline", order=10, parent="Pipelines")
EXPORT_TYPE = "application/x-ndjson"
MODES = get_args(Mode)
QUERY = {
    "store": "The store, by default the first one of the pipeline.",
    "q": "Search for this.",
    "mode": f"The mode of the search: {', '.join(MODES)}.",
    "compare": "A second mode, whose hits are shown next to the others.",
    "kind": "Only records of this kind.",
    "scope": "Only records of this scope.",
    "source": "Only records of this source.",
    "tag": "Only records with this tag. It may be repeated.",
    "owner": "Only records of this owner.",
    "thread": "Only turns of this conversation.",
    "key": "Only records with this key.",
    "filter": "Only records that pass this filter, in JSON (docs/filters.md).",
    "deleted": "1 lists deleted records that can be restored.",
    "expires": "1 lists only records with an expiry time.",
    "order": "asc or desc, by arrival.",
    "cursor": "The cursor of a later page.",
    "as_of": "The records as they were: a time in UTC, or a change as in n:1204.",
}
PAST_FAULTS = (Unprocessable, Gone)
ERRORS = {400: "A parameter is invalid.", 404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
Json = dict[str, Any]
PAGE_SIZE = 50
# Filters of the operation itself, and those that become conditions of its filter.
NAMED = ("kind", "scope", "source")
FIELDS = ("owner", "thread", "key")


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The part of a store that a visitor sees. `fields` are the values of NAMED and FIELDS.

    `filter` is a filter in JSON, "" for none. With `query`, the records are those of a search in
    `mode`; `compare` is a second mode, shown next to it.
    """

    path: str
    store: str
    fields: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    filter: str = ""
    is_deleted: bool = False
    expires: bool = False
    order: str = "desc"
    cursor: str = ""
    query: str = ""
    mode: str = "hybrid"
    compare: str = ""
    as_of: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether a filter is set."""
        return bool(self.fields or self.tags or self.filter or self.is_deleted or self.expires)

    def url(self, part: str = "", **changes: Any) -> str:
        """Return the address of this view with changes, or of a part of the page."""
        view = replace(self, **changes)
        given = [("store", view.store), *view.fields.items(), *(("tag", tag) for tag in view.tags)]
        given += [("filter", view.filter), ("q", view.query), ("compare", view.compare)]
        given += [("deleted", "1" if view.is_deleted else ""), ("cursor", view.cursor)]
        given += [("expires", "1" if view.expires else "")]
        given += [("mode", view.mode if view.mode != "hybrid" else "")]
        given += [("order", view.order if view.order != "desc" else ""), ("as_of", view.as_of)]
        return f"{view.path}{part}?{urlencode([pair for pair in given if pair[1]])}"

    def url_with(self, name: str, value: str) -> str:
        """Return the address of this view, narrowed by one more value, at its first page."""
        if name == "tag":
            return self.url(tags=tuple(dict.fromkeys((*self.tags, value))), cursor="")
        return self.url(fields={**self.fields, name: value}, cursor="")

    def url_without(self, name: str, value: str) -> str:
        """Return the address of this view without one of its filters."""
        if name == "tag":
            return self.url(tags=tuple(tag for tag in self.tags if tag != value), cursor="")
        if name in self.fields:
            kept = {key: one for key, one in self.fields.items() if key != name}
            return self.url(fields=kept, cursor="")
        cleared = {"deleted": {"is_deleted": False}, "expires": {"expires": False}}
        return self.url(cursor="", **cleared.get(name, {"filter": ""}))

    def filters(self) -> list[tuple[str, str]]:
        """Return the filters that are set: their names and values."""
        found = [*self.fields.items(), *(("tag", tag) for tag in self.tags)]
        found += [("filter", self.filter)] if self.filter else []
        found += [("expires", "yes")] if self.expires else []
        return found + ([("deleted", "yes")] if self.is_deleted else [])

    def conditions(self) -> Json:
        """Return the input of an operation that narrows its records."""
        parts: list[Json] = [orjson.loads(self.filter)] if self.filter else []
        parts += [{name: {"eq": self.fields[name]}} for name in FIELDS if name in self.fields]
        parts += [{"expires_at": {"exists": True}}] if self.expires else []
        given: Json = {name: self.fields[name] for name in NAMED if name in self.fields}
        given |= {"tags": self.tags} if self.tags else {}
        return given | ({"filter": {"and": parts}} if parts else {})

    def list_input(self) -> Json:
        """Return the input of records.list."""
        page = {"limit": PAGE_SIZE, "order": self.order, "cursor": self.cursor}
        return self.conditions() | page | {"deleted": self.is_deleted}

    def search_input(self, mode: str) -> Json:
        """Return the input of records.search. A source is a condition of the filter there."""
        given = self.conditions()
        if source := given.pop("source", ""):
            parts = given.get("filter", {"and": []})["and"]
            given["filter"] = {"and": [*parts, {"source": {"eq": source}}]}
        return given | {"query": self.query, "mode": mode, "limit": PAGE_SIZE, "explain": True}


def parse_view(path: str, query: MultiMapping[str], stores: list[str]) -> MemoryView:
    """Return the view that an address selects. Raises BadRequest."""
    store, mode = query.get("store") or stores[0], query.get("mode") or "hybrid"
    compare = query.get("compare", "")
    for given in (mode, compare or mode):
        if given not in MODES:
            raise BadRequest(f"There is no mode {given[:20]!r}; the modes are {', '.join(MODES)}.")
    return MemoryView(
        path,
        store,
        {name: query[name] for name in (*NAMED, *FIELDS) if query.get(name)},
        tuple(tag for tag in query.getall("tag", []) if tag),
        _check_filter(query.get("filter", "").strip()),
        query.get("deleted") == "1",
        query.get("expires") == "1",
        "asc" if query.get("order") == "asc" else "desc",
        query.get("cursor", ""),
        query.get("q", "").strip(),
        mode,
        compare if compare != mode else "",
        query.get("as_of", "").strip(),
    )


def _check_filter(text: str) -> str:
    try:
        is_object = not text or isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError as error:
        raise BadRequest(
            f"The filter is not valid JSON: {error.msg}. See docs/filters.md."
        ) from error
    if not is_object:
        raise BadRequest('The filter must be a JSON object like {"kind": {"eq": "note"}}.')
    return text


class Listed(NamedTuple):
    """What the page shows: a page of a list, or hits by mode, or why there is nothing now.

    `is_invalid` tells that the fault is one of the filter or the query.
    """

    items: list[dict[str, Any]]
    total: int = 0
    next_cursor: str = ""
    searches: tuple[Hits, ...] = ()
    fault: str = ""
    is_invalid: bool = False


@routes.pipeline_page("memory.html")
async def memory(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the records of a store, or the hits of a search."""
    values = await _list_values(request, served)
    return values | {"stores": list_record_stores(served), "modes": MODES}


@routes.part("/rows", "fragments/memory_rows.html")
async def memory_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of the page."""
    values = await _list_values(request, served)
    listed = values["listed"]
    refuse_fault("" if listed.is_invalid else listed.fault)
    return values


@routes.get(PAGE.path + "/export")
@documented(
    {200: "One record per line.", 422: "The filter or the query is invalid."} | ERRORS,
    media_type=EXPORT_TYPE,
    query=QUERY,
)
@requires("read")
async def memory_export(request: web.Request) -> web.Response:
    """Return the shown records as JSON lines."""
    served = await find_served(request)
    listed = await _read(request, served, _parse(request, served))
    if listed.fault:
        raise Unprocessable(listed.fault)
    hits = [hit.record for search in listed.searches[:1] for hit in search.found]
    lines = b"".join(orjson.dumps(one) + b"\n" for one in hits or listed.items)
    headers = HEADERS | {hdrs.CONTENT_DISPOSITION: 'attachment; filename="records.jsonl"'}
    return web.Response(body=lines, content_type=EXPORT_TYPE, headers=headers)


def _parse(request: web.Request, served: Served) -> MemoryView:
    path = PAGE.path.replace("{uid}", served.deployed.uid)
    return parse_view(path, request.query, list_record_stores(served))


async def _list_values(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    view = _parse(request, served)
    # The records of a page repeat their values.
    narrow, badge = cache(view.url_with), load_macro(request, "memory_meta.html", "badge")
    return {
        "view": view,
        "listed": await _read(request, served, view),
        "may_search": "search" in get_caller(request).scopes,
        "narrow": narrow,
        "badge": cache(lambda name, value: badge(name, value, narrow(name, value))),
        "link": lambda guid: record_url(served.deployed.uid, view.store, guid),
    }


async def _read(request: web.Request, served: Served, view: MemoryView) -> Listed:
    """Return what the view selects. An invalid filter or query is shown on the page."""
    try:
        return await _find(request, served.deployed.uid, view)
    except PAST_FAULTS as error:
        faults = error.members.get("faults", [])
        rules = "; ".join(f"{one['pointer']}: {one['rule']}" for one in faults)
        detail = f"{capitalize_first(error.detail)}."
        return Listed([], fault=rules or detail, is_invalid=True)


async def _find(request: web.Request, uid: str, view: MemoryView) -> Listed:
    if not view.query:
        call = Call("records.list", view.list_input(), view.store, view.as_of)
        (answer,) = await ask(request, uid, call)
        if answer.fault:
            return Listed([], fault=answer.fault)
        page = answer.output
        return Listed(page["items"], page["total"], page["next_cursor"] or "")
    modes = [mode for mode in (view.mode, view.compare) if mode]
    calls = [
        Call("records.search", view.search_input(mode), view.store, view.as_of) for mode in modes
    ]
    answers = await ask(request, uid, *calls)
    fault = next((answer.fault for answer in answers if answer.fault), "")
    if fault:
        return Listed([], fault=fault)
    pairs = zip(answers, modes, strict=True)
    return Listed(
        [], searches=tuple(read_hits(one.output, mode, view.query) for one, mode in pairs)
    )
