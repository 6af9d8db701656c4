"""The page "People": the users, agents and threads that the stores of a pipeline know, and
everything about one of them on a timeline.
"""

import asyncio
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from zlib import crc32

import orjson
from aiohttp import hdrs, web

from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import requires
from memrelay.web.console.agents import list_agents
from memrelay.web.console.calls import Answer, Call, ask
from memrelay.web.console.frame import (
    HEADERS,
    Page,
    PageRoutes,
    find_served,
    refuse_fault,
    render_page,
)
from memrelay.web.console.subject_reads import (
    StoreHead,
    SubjectName,
    add_kinds,
    list_subject_stores,
    read_heads,
    read_item_keys,
    read_timeline,
    shorten_store,
)
from memrelay.web.openapi.route_docs import documented
from memrelay.web.server.errors import BadRequest

PAGE = Page("People", "/pipelines/{uid}/people", menu="pipeline", order=21, parent="Pipelines")
SORTS = {"user": "People", "thread": "Threads", "agent": "Agents"}
QUERY = {
    "sort": f"What to show: {', '.join(SORTS)}.",
    "of": "A user, an agent, a thread or a part of a view: show everything about it.",
    "beginning": "Only names that begin with this text.",
    "after": "Only names after this one.",
    "kind": "Only records of this kind.",
    "cursor": "The cursor of a later page of the timeline.",
}
ERRORS = {400: "The sort is unknown.", 404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
Json = dict[str, Any]
EXPORT_TYPE = "application/x-ndjson"
# Names of each sort on the first page, and on the page of one sort.
FEW, MANY = 12, 50
# Users with a name whose beginning is compared: those seen last.
MAX_USERS = 500
MAX_PARTS, MAX_EXPORTED, EXPORT_PAGE = 20, 100_000, 500
COLORS = 6


class Name(NamedTuple):
    """A user, an agent or a thread in a list. `title` is the name of a user, the block of an agent.

    `records` is None if they are not counted. `has_more` is true if there are more of them.
    """

    name: str
    title: str = ""
    records: int | None = None
    has_more: bool = False
    seen_at: str = ""
    merged_into: str = ""

    def begins_with(self, text: str) -> bool:
        """Return whether the name, or the title in any case, begins with a text."""
        return self.name.startswith(text) or self.title.casefold().startswith(text.casefold())


class NameList(NamedTuple):
    """Names of a sort. `after` begins the next page, "" for none."""

    sort: str
    title: str
    names: list[Name]
    after: str
    faults: list[str]


@routes.page()
async def people(request: web.Request) -> web.Response:
    """Show the users, agents and threads of a pipeline, or everything about one of them."""
    served = await find_served(request)
    query, subject = _parse(request, served.deployed.uid)
    common = _list_common(subject.uid, query)
    if subject.name:
        values = await _read_subject(request, served, subject, query)
        return await render_page(request, PAGE, "person.html", served, **common, **values)
    wanted = [subject.sort] if query["sort"] else [*SORTS]
    limit = MANY if query["sort"] else FEW
    *lists, views = await asyncio.gather(
        *(_list_names(request, served, one, query, limit) for one in wanted),
        _list_views(request, served, query["beginning"]),
    )
    return await render_page(
        request, PAGE, "people.html", served, lists=lists, views=views, **common
    )


@routes.part("/timeline", "fragments/timeline.html", ident="people.people_timeline")
async def people_timeline(request: web.Request, served: Served) -> Json:
    """Return the timeline of a user, an agent or a thread."""
    query, subject = _parse(request, served.deployed.uid)
    if not subject.name:
        raise BadRequest("Name the user, agent or thread with `of`.")
    timeline = await read_timeline(request, served, subject, query["kind"], query["cursor"])
    refuse_fault("; ".join(timeline.faults))
    return _list_common(subject.uid, query) | {"subject": subject, "timeline": timeline}


def _parse(request: web.Request, uid: str) -> tuple[dict[str, str], SubjectName]:
    """Return the parameters of the page. Raises BadRequest for an unknown sort."""
    query = {name: request.query.get(name, "") for name in QUERY}
    sort = query["sort"] or "user"
    if sort not in SORTS:
        raise BadRequest(f"There is no sort {sort[:20]!r}; the sorts are {', '.join(SORTS)}.")
    return query, SubjectName(uid, sort, query["of"])


def _list_common(uid: str, query: dict[str, str]) -> Json:
    """Return the template values of all pages."""

    def link(part: str = "", **given: str) -> str:
        shown = {name: value for name, value in given.items() if value}
        return f"/pipelines/{uid}/people{part}?{urlencode(shown)}"

    return {"link": link, "query": query, "sorts": SORTS, "color": color_of}


def color_of(kind: str) -> int:
    """Return the number of the color of a kind, which is the same on all pages."""
    return crc32(kind.encode()) % COLORS


async def _list_names(
    request: web.Request, served: Served, sort: str, query: Json, limit: int
) -> NameList:
    """Return the first names of a sort in all stores, by name."""
    uid, stores = served.deployed.uid, list_subject_stores(served)
    given = {"sort": sort, "limit": limit} | {
        name: query[name] for name in ("beginning", "after") if query[name]
    }
    calls = [Call("records.subjects", given, store) for store in stores]
    answers, known = await asyncio.gather(
        ask(request, uid, *calls), _list_known(request, served, sort, query)
    )
    names: dict[str, Name] = dict(known)
    for answer in answers:
        for one in answer.output["items"] if answer.output else ():
            before = names.get(one["name"], Name(one["name"]))
            names[one["name"]] = before._replace(
                records=(before.records or 0) + one["records"],
                has_more=before.has_more or one["has_more"],
            )
    ordered = [names[name] for name in sorted(names) if not names[name].merged_into]
    has_more = len(ordered) > limit or any(one.output and one.output["after"] for one in answers)
    after = ordered[:limit][-1].name if has_more and ordered else ""
    faults = _list_faults(uid, stores, answers)
    return NameList(sort, SORTS[sort], ordered[:limit], after, faults)


def _list_faults(uid: str, stores: list[str], answers: list[Answer]) -> list[str]:
    pairs = zip(stores, answers, strict=True)
    return [f"{shorten_store(uid, one)}: {answer.fault}" for one, answer in pairs if answer.fault]


async def _list_known(
    request: web.Request, served: Served, sort: str, query: Json
) -> dict[str, Name]:
    """Return what is known without records: agents of the bundle, and names of users."""
    beginning, after = query["beginning"], query["after"]
    if sort == "agent":
        agents = {one.name: one.block for one in list_agents(served.bundle)}
        return {
            name: Name(name, block)
            for name, block in agents.items()
            if name.startswith(beginning) and name > after
        }
    if sort != "user":
        return {}
    calls = [
        Call("users.list", {"limit": MAX_USERS}, store) for store in list_subject_stores(served)
    ]
    answers = await ask(request, served.deployed.uid, *calls)
    users = [one for answer in answers if answer.output for one in answer.output["items"]]
    names = [
        Name(
            one["canonical_id"],
            one["display_name"] or "",
            seen_at=one["last_seen_at"],
            merged_into=one["merged_into"] or "",
        )
        for one in users
    ]
    return {one.name: one for one in names if one.name > after and one.begins_with(beginning)}


async def _list_views(request: web.Request, served: Served, beginning: str) -> list[Json]:
    """Return the declared views with parts, of all stores: {"name", "per", "items", "has_more"}."""
    uid, stores = served.deployed.uid, list_subject_stores(served)
    listed = await ask(request, uid, *(Call("views.list", {}, store) for store in stores))
    found = [
        (store, view)
        for store, answer in zip(stores, listed, strict=True)
        for view in (answer.output["items"] if answer.output else ())
        if "per" in view["view"]
    ]
    given = {"limit": MAX_PARTS} | ({"beginning": beginning} if beginning else {})
    calls = [Call("views.parts", {"id": view["name"]} | given, store) for store, view in found]
    answers = await ask(request, uid, *calls)
    return [
        {"name": view["name"], "per": view["view"]["per"], "parts": answer.output}
        for (_, view), answer in zip(found, answers, strict=True)
        if answer.output
    ]


async def _read_subject(
    request: web.Request, served: Served, subject: SubjectName, query: Json
) -> Json:
    """Return the template values of the page of one subject."""
    timeline, heads, keys = await asyncio.gather(
        read_timeline(request, served, subject, query["kind"], query["cursor"]),
        read_heads(request, served, subject),
        _read_keys(request, subject),
    )
    user = next((head.user for head in heads if head.user), None)
    with_records = [head for head in heads if head.count]
    return {
        "subject": subject,
        "timeline": timeline,
        "faults": dict.fromkeys([*timeline.faults, *_fault_heads(subject, heads)]),
        "user": user,
        "kinds": add_kinds(heads),
        "first_at": min((head.first_at for head in with_records), default=""),
        "last_at": max((head.last_at for head in with_records), default=""),
        "is_whole": all(head.is_whole for head in heads),
        "views": [view for head in heads for view in head.views],
        "keys": keys,
        "forgets": [_make_forgetting(subject, head) for head in with_records],
        "merge": _make_path(subject, "merge", next((one.store for one in heads if one.user), "")),
    }


def _fault_heads(subject: SubjectName, heads: list[StoreHead]) -> list[str]:
    return [f"{shorten_store(subject.uid, one.store)}: {one.fault}" for one in heads if one.fault]


async def _read_keys(request: web.Request, subject: SubjectName) -> list[str]:
    return await read_item_keys(request, subject) if subject.sort == "agent" else []


def _make_path(subject: SubjectName, verb: str, store: str) -> str:
    """Return the path of a call about a user in the API."""
    name = quote(subject.name, safe="")
    return f"/v1/pipelines/{subject.uid}/users/{name}/{verb}?{urlencode({'store': store})}"


def _make_forgetting(subject: SubjectName, head: StoreHead) -> Json:
    """Return the call that erases a subject from a store: {"store", "count", "path", "body"}."""
    found = {"store": shorten_store(subject.uid, head.store), "count": head.count}
    if subject.sort == "user":
        return found | {"path": _make_path(subject, "forget", head.store), "body": {}}
    column, scope = {"agent": ("source", "agent:"), "thread": ("thread", "session:")}[subject.sort]
    parts = [{column: {"eq": subject.name}}, {"scope": {"eq": f"{scope}{subject.name}"}}]
    path = f"/v1/pipelines/{subject.uid}/records/erase?{urlencode({'store': head.store})}"
    return found | {"path": path, "body": {"filter": {"or": parts}}}


@routes.get(PAGE.path + "/export")
@documented(
    {200: "One record per line, with its store.", 422: "The input is invalid."} | ERRORS,
    media_type=EXPORT_TYPE,
    query={name: QUERY[name] for name in ("sort", "of", "kind")},
)
@requires("read")
async def people_export(request: web.Request) -> web.StreamResponse:
    """Return up to 100,000 records of a user, an agent or a thread as JSON lines."""
    served = await find_served(request)
    given = {"name": request.query.get("of", ""), "kind": request.query.get("kind", "")}
    given["sort"] = request.query.get("sort") or "user"
    headers = HEADERS | {hdrs.CONTENT_DISPOSITION: 'attachment; filename="records.jsonl"'}
    response = web.StreamResponse(headers=headers)
    response.content_type = EXPORT_TYPE
    count = 0
    for store in list_subject_stores(served):
        cursor: str | None = ""
        while cursor is not None and count < MAX_EXPORTED:
            page = {"cursor": cursor, "limit": EXPORT_PAGE} | given
            found = await call_operation(
                request, "records.timeline", served.deployed.uid, page, store
            )
            if not response.prepared:
                await response.prepare(request)
            lines = [orjson.dumps({"store": store} | one["record"]) for one in found["items"]]
            await response.write(b"".join(line + b"\n" for line in lines))
            count, cursor = count + len(lines), found["next_cursor"]
    return response
