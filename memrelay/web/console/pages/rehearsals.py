"""The pages of rehearsals: a form that starts one, their list, and one with its difference."""

import asyncio
import time
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.memory.models.rehearsals.rehearsals import CURSOR
from memrelay.memory.records.word_diff import WordDiff, compare_words
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.calls import Answer, Call, ask
from memrelay.web.console.format import clip_bytes, read_json
from memrelay.web.console.frame import (
    Page,
    PageRoutes,
    answer_refresh,
    find_served,
    refuse_fault,
    render,
)
from memrelay.web.console.pages.bundle import MAX_SHOWN_BYTES, parse_number, read_bundle_text
from memrelay.web.server.errors import BadRequest, NotFound
from memrelay.web.services import get_services

PAGE = Page(
    "Rehearsals", "/pipelines/{uid}/rehearsals", menu="pipeline", order=52, parent="Pipelines"
)
QUERY = {"version": "The version of the bundle in the form, by default the active one."}
ERRORS = {400: "A parameter is invalid.", 404: "There is no such pipeline or version."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
ONE_PAGE = Page("Rehearsal", "/pipelines/{uid}/rehearsals/{id}", parent="Rehearsals")
ONE_QUERY = {"cursor": "The cursor of a later page of the difference."}
ONE_ERRORS = {400: "The cursor is invalid.", 404: "There is no such pipeline or rehearsal."}
SCHEMAS = {"cursor": {"type": "string", "pattern": "^[0-9]{0,9}$"}}
FOR_ADMINS = requires("admin")
one_routes = PageRoutes(ONE_PAGE, errors=ONE_ERRORS, query=ONE_QUERY, access=FOR_ADMINS)
# A rehearsal that runs changes nothing that the bus knows.
EVERY_S = 2


class NoteList(NamedTuple):
    """A list of a report besides its records: the fields that name a difference, and its text."""

    title: str
    label: str
    text: str


LISTS = {
    "decisions": NoteList("Decisions", "operation", "action"),
    "messages": NoteList("Published messages", "swarm", "text"),
    "dead_letters": NoteList("Dead letters", "agent", "error"),
    "webhooks": NoteList("Webhooks", "agent", "request"),
    "requests": NoteList("Requests", "block", "request"),
    "deliveries": NoteList("Deliveries", "endpoint", "event"),
}


class Shown(NamedTuple):
    """A difference. `words` is None for equal texts, and `fields` has further fields as
    (name, then, candidate).
    """

    change: str
    label: str
    origin: str
    words: WordDiff | None
    fields: list[tuple[str, Any, Any]]


@routes.pipeline_page("rehearsals.html")
async def rehearsals(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a form that starts a rehearsal, and the rehearsals of a pipeline."""
    if "admin" not in get_caller(request).scopes:
        return {"listed": Answer(None), "is_running": False}
    number = parse_number(request, "version", served.deployed.version)
    text = await _read_version(request, served, number)
    values = await _list_rehearsals(request, served)
    is_long = clip_bytes(text, MAX_SHOWN_BYTES).hidden > 0
    return values | {
        "number": number,
        "text": "" if is_long else text,
        "is_long": is_long,
        "inputs_days": served.bundle.inputs_days,
    }


async def _read_version(request: web.Request, served: Served, number: int) -> str:
    """Return the bundle of a version. Raises NotFound."""
    versions = await get_services(request).catalog.versions(served.deployed.uid)
    found = next((one for one in versions if one.version == number), None)
    if found is None:
        raise NotFound(f"This pipeline has no version {number}.")
    return await read_bundle_text(request, found)


async def _list_rehearsals(request: web.Request, served: Served) -> dict[str, Any]:
    (listed,) = await ask(request, served.deployed.uid, Call("rehearsals.list", {}))
    items = listed.output["items"] if listed.output else []
    return {"listed": listed, "is_running": any(one["status"] == "running" for one in items)}


@routes.fragment(
    PAGE.path + "/rows", access=FOR_ADMINS, ident="rehearsals.rehearsals_rows", query={}
)
async def rehearsals_rows(request: web.Request) -> web.StreamResponse:
    """Return the list of rehearsals. The page is loaded again if none runs."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _list_rehearsals(request, served)
        refuse_fault(values["listed"].fault)
        uid = served.deployed.uid
        shown = render(request, "fragments/rehearsals.html", uid=uid, **values)
        return shown if values["is_running"] else _reload(shown)

    return await answer_refresh(request, served, make, int(time.time() // EVERY_S))


@one_routes.pipeline_page("rehearsal.html", query_schemas=SCHEMAS, ident="rehearsals.rehearsal")
async def rehearsal(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a rehearsal: its progress, or a page of its difference."""
    values = await _read_rehearsal(request, served)
    found = values["rehearsal"]
    report = found["report"] if found else None
    if report is None or report["status"] != "done":
        return values | {"report": None, "records": [], "lists": []}
    records, lists = await asyncio.to_thread(_describe, report)
    return values | {"report": report, "records": records, "lists": lists}


@one_routes.fragment(
    ONE_PAGE.path + "/state", ident="rehearsals.rehearsal_state", query_schemas=SCHEMAS
)
async def rehearsal_state(request: web.Request) -> web.StreamResponse:
    """Return the state of a rehearsal. The page is loaded again when it has ended."""
    served = await find_served(request)

    async def make() -> web.Response:
        values = await _read_rehearsal(request, served)
        refuse_fault(values["fault"])
        shown = render(request, "fragments/rehearsal.html", uid=served.deployed.uid, **values)
        return shown if values["rehearsal"]["status"] == "running" else _reload(shown)

    return await answer_refresh(request, served, make, int(time.time() // EVERY_S))


async def _read_rehearsal(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of a rehearsal, None if no worker answers. Raises BadRequest."""
    ident, cursor = request.match_info["id"], request.query.get("cursor", "")
    if cursor and not CURSOR.fullmatch(cursor):
        raise BadRequest("The parameter 'cursor' must be the one of a link on the page.")
    call = Call("rehearsals.get", {"id": ident, "cursor": cursor})
    (answer,) = await ask(request, served.deployed.uid, call)
    return {
        "rehearsal_id": ident,
        "cursor": cursor,
        "rehearsal": answer.output,
        "fault": answer.fault,
    }


def _reload(response: web.Response) -> web.Response:
    """Let refresh.js load the page again."""
    response.headers["Refresh"] = "0"
    return response


def _describe(report: dict[str, Any]) -> tuple[list[Shown], list[tuple[str, list[Shown]]]]:
    """Return the records, and the other lists with their titles."""
    lists = [
        (kind.title, [_describe_note(one, kind) for one in report.get(name, ())])
        for name, kind in LISTS.items()
    ]
    return [_describe_record(one) for one in report["records"]], lists


def _describe_record(one: dict[str, Any]) -> Shown:
    then, candidate = one["then"] or {}, one["candidate"] or {}
    old, new = then.get("content") or "", candidate.get("content") or ""
    fields = [(name, *sides) for name, sides in one.get("fields", {}).items() if name != "content"]
    words = None if old == new else compare_words(_to_readable(old), _to_readable(new))
    return Shown(one["change"], f"{one['kind']} in {one['store']}", one["input"], words, fields)


def _describe_note(one: dict[str, Any], kind: NoteList) -> Shown:
    then, candidate = one["then"] or {}, one["candidate"] or {}
    change = "added" if not then else "missing" if not candidate else "changed"
    old, new = then.get(kind.text) or "", candidate.get(kind.text) or ""
    fields = [
        (name, then[name], candidate[name])
        for name in then
        if candidate and name != kind.text and then[name] != candidate[name]
    ]
    label = (then or candidate).get(kind.label) or ""
    words = None if old == new else compare_words(_to_readable(old), _to_readable(new))
    return Shown(change, label, one["input"], words, fields)


def _to_readable(text: str) -> str:
    """Return JSON indented, so that each value is a word, and other texts as they are."""
    found = read_json(text)
    return found.indented if found else text
