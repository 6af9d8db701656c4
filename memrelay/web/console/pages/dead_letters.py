"""The pages of dead letters: groups by pipeline and reason, letters of a group, and one letter."""

import time
from collections.abc import Collection
from typing import Any, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from memrelay.memory.control.dead_letters import DeadLetterGroup
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.answers import parse_numeric_cursor
from memrelay.web.api.dead_letter_json import to_detail
from memrelay.web.auth.access import get_caller, list_visible
from memrelay.web.console.format import format_age
from memrelay.web.console.frame import Page, PageRoutes, answer_changed, render, render_page
from memrelay.web.console.shared_reads import STATUS
from memrelay.web.openapi.route_docs import NUMERIC_CURSOR_SCHEMA
from memrelay.web.server.errors import NotFound
from memrelay.web.services import get_services
from memrelay.web.trace.dead_letter_rows import read_rows
from memrelay.web.trace.messages import parse_entry_id, read_message

PAGE = Page("Dead letters", "/dead-letters", menu="main", order=20)
PAGE_SIZE = 50
LAST = 2**63 - 1
QUERY = {
    "pipeline": "Only the dead letters of this pipeline.",
    "reason": "The letters whose error has this first line, instead of groups. Needs `pipeline`.",
    "cursor": "The position where the page begins.",
}
ERRORS = {404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
LETTER_PAGE = Page("Dead letter", "/dead-letters/{uid}/{ident}", parent="Dead letters")
letter_routes = PageRoutes(LETTER_PAGE)
# Characters of a message. The JSON has all of them.
MAX_CHARACTERS = 20_000


class GroupRow(NamedTuple):
    """A group of dead letters. `url` lists them, `age` is that of the oldest failure."""

    group: DeadLetterGroup
    name: str
    is_active: bool
    url: str
    age: str
    failed_at: str


class Choice(NamedTuple):
    """A pipeline with dead letters, to filter by."""

    uid: str
    name: str
    letters: int


@routes.page(query_schemas={"cursor": NUMERIC_CURSOR_SCHEMA})
async def dead_letters(request: web.Request) -> web.Response:
    """Show the groups of dead letters, or the letters of one group."""
    values = await _page_values(request)
    return await render_page(request, PAGE, "dead_letters.html", **values)


@routes.fragment("/fragments/dead-letters", query_schemas={"cursor": NUMERIC_CURSOR_SCHEMA})
async def dead_letters_fragment(request: web.Request) -> web.Response:
    """Return the groups of dead letters, or the letters of one group."""

    async def make() -> web.Response:
        return render(request, "fragments/dead_letters.html", **await _page_values(request))

    # Ages are shown in minutes.
    return await answer_changed(request, (await read_state(request), int(time.time() // 60)), make)


async def read_state(request: web.Request) -> object:
    """Return a value that changes with the dead letters and the active pipelines.

    Raises BusError and StoreBusy, so that an open page reports it.
    """
    services = get_services(request)
    await request.config_dict[STATUS].get()
    active = [one.deployed.uid for one in await services.directory.list_pipelines()]
    return await services.catalog.dead_letters.read_version(), active


async def _page_values(request: web.Request) -> dict[str, Any]:
    """Return the template values of the groups, or of one group. Raises NotFound and BadRequest."""
    services, uid = get_services(request), request.query.get("pipeline", "")
    sees, every = get_caller(request).sees, await services.catalog.dead_letters.count()
    counts = {one: number for one, number in every.items() if sees(one)}
    names = await list_names(request, [uid] if uid else counts)
    if uid and uid not in {*names, *counts}:
        raise NotFound(f"No pipeline {uid[:100]!r} is active or has dead letters.")
    reason = request.query.get("reason") if uid else None
    values = {
        "pipeline": uid,
        "pipeline_name": names.get(uid, uid),
        "is_active": uid in names,
        "reason": reason,
        "choices": _list_choices(counts, names),
        "total": counts.get(uid, 0) if uid else sum(counts.values()),
        "caller": get_caller(request),
        "wait_s": services.options.max_wait_s,
        "query": urlencode({name: request.query[name] for name in QUERY if name in request.query}),
    }
    if reason is not None:
        return values | await _letter_values(request, uid, reason)
    return values | await _group_values(request, [uid] if uid else [], names)


async def _group_values(
    request: web.Request, uids: list[str], names: dict[str, str]
) -> dict[str, Any]:
    """Return the groups of these pipelines, or of all that the caller sees."""
    letters, caller = get_services(request).catalog.dead_letters, get_caller(request)
    visible = None if caller.sees_all else sorted(caller.pipelines)
    before = parse_numeric_cursor(request.query.get("cursor") or str(LAST), LAST)
    found = await letters.groups(uids or visible, before=before, limit=PAGE_SIZE + 1)
    groups = [_to_group_row(group, names) for group in found[:PAGE_SIZE]]
    next_url = _url(*uids, cursor=groups[-1].group.place) if len(found) > PAGE_SIZE else ""
    return {"groups": groups, "letters": [], "group_count": 0, "next_url": next_url}


async def _letter_values(request: web.Request, uid: str, reason: str) -> dict[str, Any]:
    letters = get_services(request).catalog.dead_letters
    after = parse_numeric_cursor(request.query.get("cursor") or "0", LAST)
    found = await letters.page([uid], reason=reason, after=after, limit=PAGE_SIZE + 1)
    rows = await read_rows(letters, found[:PAGE_SIZE])
    groups = await letters.groups([uid], reason=reason, limit=1)
    has_more = len(found) > PAGE_SIZE
    return {
        "groups": [],
        "letters": rows,
        "group_count": sum(group.letters for group in groups),
        "next_url": _url(uid, reason=reason, cursor=found[-2].place) if has_more else "",
    }


async def list_names(request: web.Request, uids: Collection[str]) -> dict[str, str]:
    """Return the names of the active pipelines of the caller, by uid.

    If one of `uids` is unknown, it may be new, and the pipelines are read again.
    """
    names = {one.deployed.uid: one.deployed.name for one in await list_visible(request)}
    sees = get_caller(request).sees
    if all(uid in names for uid in uids if sees(uid)):
        return names
    pipelines = await list_visible(request, refresh=True)
    return {one.deployed.uid: one.deployed.name for one in pipelines}


def _list_choices(counts: dict[str, int], names: dict[str, str]) -> list[Choice]:
    """Return the pipelines that have dead letters, by name."""
    choices = [Choice(uid, names.get(uid, uid), number) for uid, number in counts.items()]
    return sorted(choices, key=lambda one: (one.name, one.uid))


def _to_group_row(group: DeadLetterGroup, names: dict[str, str]) -> GroupRow:
    age_s = max(0.0, time.time() - group.first_at / 1000)
    return GroupRow(
        group,
        names.get(group.pipeline, group.pipeline),
        group.pipeline in names,
        _url(group.pipeline, reason=group.reason),
        format_age(age_s) if age_s >= 120 else "1 min" if age_s >= 60 else "just now",
        format_time(group.last_at),
    )


def _url(uid: str = "", **more: Any) -> str:
    given = {"pipeline": uid, **more} if uid else more
    return f"{PAGE.path}?{urlencode(given)}"


@letter_routes.page(
    ident="dead_letter.dead_letter", responses={404: "There is no such dead letter."}
)
async def dead_letter(request: web.Request) -> web.Response:
    """Show a dead letter with its message."""
    values = await _read_letter(request)
    if values["letter"] is None:
        raise NotFound("There is no such dead letter. It may have been replayed or dropped.")
    return await render_page(request, LETTER_PAGE, "dead_letter.html", **values)


@letter_routes.fragment(LETTER_PAGE.path + "/letter", ident="dead_letter.letter_fragment")
async def letter_fragment(request: web.Request) -> web.Response:
    """Return a dead letter with its message, or that it is gone."""

    async def make() -> web.Response:
        return render(request, "fragments/dead_letter.html", **await _read_letter(request))

    return await answer_changed(request, await read_state(request), make)


async def _read_letter(request: web.Request) -> dict[str, Any]:
    """Return the template values of a letter. `letter` is None if it does not exist."""
    uid, ident = request.match_info["uid"], request.match_info["ident"]
    services = get_services(request)
    letter, names = (
        await services.catalog.dead_letters.find(uid, ident),
        await list_names(request, [uid]),
    )
    sender, text = read_message(letter.data) if letter else ("", "")
    return {
        "letter": None if letter is None else to_detail(letter),
        "ident": ident,
        "sender": sender,
        "text": text[:MAX_CHARACTERS],
        "hidden": max(0, len(text) - MAX_CHARACTERS),
        "entry": parse_entry_id(ident),
        "letter_uid": uid,
        "pipeline_name": names.get(uid, uid),
        "is_active": uid in names,
        "wait_s": services.options.max_wait_s,
        "caller": get_caller(request),
    }
