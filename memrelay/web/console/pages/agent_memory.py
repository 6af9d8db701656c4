"""The page /memories: facts, episodes, checkpoints, procedures and users of a pipeline's agents.

The page shows what Pipelit's REST paths list. A script shows times in the browser's time zone, and
sends deletions to these paths.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from aiohttp import web

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.agent_memory import EPISODE_KIND, PROCEDURE_KIND, USER_KIND
from memrelay.memory.models.agent_memory.facts import FACT_TYPES
from memrelay.memory.models.agent_memory.scopes import SCOPES
from memrelay.memory.validation import parse_number
from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller, list_visible
from memrelay.web.console.format import summarize
from memrelay.web.console.frame import Link, Page, PageRoutes, redirect, render_page
from memrelay.web.models.pipelit.sections import (
    CHECKPOINTS,
    EPISODES,
    FACTS,
    PROCEDURES,
    USERS,
    Section,
    list_page,
)
from memrelay.web.server.errors import NotFound
from memrelay.web.services import get_services

MAX_CHARACTERS = 60
MAX_ID_CHARACTERS = 12
NONE = "—"
Json = dict[str, Any]
PAGE = Page(
    "Agent memory",
    "/memories",
    menu="pipeline",
    order=40,
    parent="Pipelines",
    link="/memories?pipeline={uid}",
)
PAGE_SIZE = 50
MAX_PAGE_BUTTONS = 5
MAX_PAGE_DIGITS = 8
MAX_LOG_STEPS = 200
ERRORS = {
    404: "There is no such pipeline, tab or record.",
    422: "A filter is invalid.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
routes = PageRoutes(PAGE, errors=ERRORS)
# The store of the records.
STORE = "memories"
# The tab of a record. All other kinds are facts.
TAB_OF_KIND = {EPISODE_KIND: "episodes", PROCEDURE_KIND: "procedures", USER_KIND: "users"}
# Fields of a record that its page shows elsewhere or not at all.
HIDDEN_FIELDS = ("guid", "content", "data", "version", "in_context", "seq", "encrypted", "folded")


class Cell(NamedTuple):
    """A table cell. `kind` is "", "badge", "code", "number" or "time"."""

    text: str
    kind: str = ""


class Column(NamedTuple):
    """A column of a table. `kind` is that of its cells.

    `source` is a format string for the fields of an item, or returns the text of an item.
    """

    title: str
    source: str | Callable[[Json], str]
    kind: str = ""

    def to_cell(self, item: Json) -> Cell:
        """Return the cell of an item."""
        if isinstance(self.source, str):
            return Cell(self.source.format_map(item), self.kind)
        return Cell(self.source(item), self.kind)


class Choice(NamedTuple):
    """A filter of a tab: the values that a visitor can choose from, or none for a text field."""

    name: str
    label: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the page. Its rows are the items of a section.

    Without rows, the page shows the text `empty` and the command `example`.
    """

    section: Section
    columns: tuple[Column, ...]
    empty: str
    example: str = ""
    filters: tuple[Choice, ...] = ()

    @property
    def name(self) -> str:
        """The name in the URL."""
        return self.section.noun

    @property
    def title(self) -> str:
        """The name that the page shows."""
        return self.section.noun.title()

    @property
    def deletion(self) -> str:
        """The path that deletes the selected rows."""
        return f"{self.section.paths[0]}/batch-delete/"

    @property
    def ids(self) -> str:
        """The field of a deletion that holds the ids of the rows."""
        return "checkpoint_ids" if self.section is CHECKPOINTS else "ids"


def shorten(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


def to_text(value: Any) -> str:
    """Return a fact's value as text; objects and arrays as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _name_scope(fact: Json) -> str:
    """Return the scope of a fact with the agent, user or session that it belongs to."""
    owner = fact.get(f"{fact['scope']}_id")
    return f"{fact['scope']}: {shorten(owner)}" if owner else str(fact["scope"])


def _format_duration(episode: Json) -> str:
    took_ms = episode["duration_ms"]
    return NONE if took_ms is None else f"{took_ms / 1000:.1f}s"


def _short_id(ident: str) -> str:
    return f"{ident[:MAX_ID_CHARACTERS]}…" if len(ident) > MAX_ID_CHARACTERS else ident or NONE


def _format_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


TABS = {
    tab.name: tab
    for tab in (
        Tab(
            FACTS,
            (
                Column("Key", "{key}"),
                Column("Value", lambda fact: shorten(summarize(to_text(fact["value"])))),
                Column("Scope", _name_scope, "badge"),
                Column("Type", "{fact_type}", "badge"),
                Column("Confidence", "{confidence:.0%}", "number"),
                Column("Accessed", "{access_count:,}", "number"),
                Column("Updated", "{updated_at}", "time"),
            ),
            "No facts stored yet",
            "facts set PIPELINE favorite_drink '\"green tea\"'",
            (Choice("scope", "Scope", SCOPES), Choice("fact_type", "Type", FACT_TYPES)),
        ),
        Tab(
            EPISODES,
            (
                Column("Agent", "{agent_id}"),
                Column("Trigger", "{trigger_type}", "badge"),
                Column("Success", lambda one: "Yes" if one["success"] else "No", "badge"),
                Column("Summary", lambda episode: shorten(episode["summary"] or NONE)),
                Column("Started", "{started_at}", "time"),
                Column("Duration", _format_duration, "number"),
            ),
            "No episodes recorded yet",
            "episodes begin PIPELINE assistant --trigger-type chat",
            (Choice("agent_id", "Agent"),),
        ),
        Tab(
            CHECKPOINTS,
            (
                Column("Thread ID", "{thread_id}"),
                Column("Checkpoint ID", lambda one: _short_id(one["checkpoint_id"]), "code"),
                Column("Parent", lambda one: _short_id(one["parent_checkpoint_id"] or ""), "code"),
                Column(
                    "Step", lambda one: NONE if one["step"] is None else str(one["step"]), "number"
                ),
                Column("Source", lambda one: one["source"] or NONE, "badge"),
                Column("Blob Size", lambda one: _format_bytes(one["blob_size"]), "number"),
            ),
            "No checkpoints found",
            "",
            (Choice("thread_id", "Thread"),),
        ),
        Tab(
            PROCEDURES,
            (
                Column("Name", "{name}"),
                Column("Agent", "{agent_id}"),
                Column("Type", "{procedure_type}", "badge"),
                Column("Used", "{times_used:,}", "number"),
                Column("Success Rate", "{success_rate:.0%}", "number"),
                Column("Active", lambda one: "Yes" if one["is_active"] else "No", "badge"),
            ),
            "No procedures learned yet",
            'procedures save PIPELINE greet prompt_template \'{"template": "Hi"}\'',
            (Choice("agent_id", "Agent"),),
        ),
        Tab(
            USERS,
            (
                Column("Name", lambda one: one["display_name"] or NONE),
                Column("Canonical ID", "{canonical_id}", "code"),
                Column("Telegram", lambda one: one["telegram_id"] or NONE),
                Column("Email", lambda one: one["email"] or NONE),
                Column("Conversations", "{total_conversations:,}", "number"),
                Column("Last Seen", "{last_seen_at}", "time"),
            ),
            "No users identified yet",
            "users identify PIPELINE telegram 4711",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class View:
    """The part of the memory that a visitor sees: a tab of a pipeline, narrowed, and a page."""

    tab: Tab
    uid: str
    number: int = 1
    query: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    as_of: str = ""

    def url(self, **changes: Any) -> str:
        """Return the address of this view with changes. Empty values are left out."""
        query: Json = {"tab": self.tab.name, "pipeline": self.uid, "q": self.query}
        query |= {**self.filters, "as_of": self.as_of, "page": self.number, **changes}
        shown = {name: value for name, value in query.items() if value not in ("", 1)}
        return f"/memories?{urlencode(shown)}"


class Row(NamedTuple):
    """A row of the table.

    `ident` selects it for deletion. `link` is the address of its record, or of its thread. `user`
    is the user that can be forgotten, or "".
    """

    ident: str
    cells: list[Cell]
    link: str
    user: str = ""


class Pager(NamedTuple):
    """The pages of a list. `numbers` are those with a button, `first` and `last` rows."""

    number: int
    first: int
    last: int
    total: int
    pages: int
    numbers: range


@routes.page(
    "/memories",
    responses={303: "Login required, or the list has fewer pages."},
    query={
        "tab": f"The tab: {', '.join(TABS)}.",
        "pipeline": "The uid of the pipeline. The default is the first one.",
        "page": "The number of the page.",
        "q": "Only facts that match this search.",
        "as_of": "The facts of then: a time in UTC, or a change as in n:1204.",
        "scope": "Only facts of this scope.",
        "fact_type": "Only facts of this type.",
        "agent_id": "Only episodes or procedures of this agent.",
        "thread_id": "Only checkpoints of this thread.",
    },
)
async def memories(request: web.Request) -> web.Response:
    """Show what the agents of a pipeline remember."""
    pipelines = await _list_pipelines(request)
    if not pipelines:
        return await render_page(request, PAGE, "memories.html", view=None)
    view = _parse_view(request, pipelines)
    page = await _list(request, view)
    items, total = page["items"], page["total"]
    if not items and total:
        return redirect(request, view.url(page=_count_pages(total)))
    return await render_page(
        request,
        PAGE,
        "memories.html",
        await get_services(request).directory.find(view.uid),
        view=view,
        links=_list_tabs(view),
        has_search=view.tab.section is FACTS,
        pipelines=pipelines,
        rows=[_to_row(view, item) for item in items],
        pager=make_pager(view.number, total, len(items)),
    )


def _list_tabs(view: View) -> list[Link]:
    """Return the links to all kinds of memory of the pipeline."""
    return [
        Link(
            tab.title,
            f"/memories?{urlencode({'tab': tab.name, 'pipeline': view.uid})}",
            "page" if tab is view.tab else "",
        )
        for tab in TABS.values()
    ]


async def _list_pipelines(request: web.Request) -> list[Served]:
    """Return the pipelines that the caller may see, by name.

    Raises NotFound: the URL names another one.
    """
    if uid := request.query.get("pipeline"):
        get_caller(request).check_pipeline(uid)
        await get_services(request).directory.find(uid)
    return await list_visible(request)


def _parse_view(request: web.Request, pipelines: list[Served]) -> View:
    """Return the view that the URL names. Raises NotFound for an unknown tab."""
    query = request.query
    name = query.get("tab") or FACTS.noun
    if name not in TABS:
        raise NotFound(f"There is no tab {name[:50]!r}. The tabs are {', '.join(TABS)}.")
    tab = TABS[name]
    filters = {one.name: query[one.name] for one in tab.filters if query.get(one.name)}
    words = query.get("q", "") if tab.section is FACTS else ""
    as_of = query.get("as_of", "") if tab.section is FACTS else ""
    uid = query.get("pipeline") or pipelines[0].deployed.uid
    number = max(1, parse_number(query.get("page", ""), 1, MAX_PAGE_DIGITS))
    return View(tab, uid, number, words, filters, as_of)


async def _list(request: web.Request, view: View) -> Json:
    """Return a page of the tab: {"items", "total"}."""
    input: Json = {**view.filters, "limit": PAGE_SIZE, "offset": (view.number - 1) * PAGE_SIZE}
    if view.query:
        input["query"] = view.query
    return await list_page(request, view.tab.section, view.uid, input, as_of=view.as_of)


def _to_row(view: View, item: Json) -> Row:
    cells = [column.to_cell(item) for column in view.tab.columns]
    if view.tab.section is CHECKPOINTS:
        return Row(item["checkpoint_id"], cells, view.url(thread_id=item["thread_id"], page=""))
    user = item["canonical_id"] if view.tab.section is USERS else ""
    return Row(item["id"], cells, f"/memories/{view.uid}/{item['id']}", user)


def _count_pages(total: int) -> int:
    return -(-total // PAGE_SIZE)


def make_pager(number: int, total: int, shown: int) -> Pager:
    """Return the pager of a page with `shown` of `total` rows."""
    pages = _count_pages(total)
    left = max(1, min(number - MAX_PAGE_BUTTONS // 2, pages - MAX_PAGE_BUTTONS + 1))
    numbers = range(left, min(pages, left + MAX_PAGE_BUTTONS - 1) + 1)
    first = (number - 1) * PAGE_SIZE + 1
    return Pager(number, first, first + shown - 1, total, pages, numbers)


@routes.page("/memories/{uid}/{guid}")
async def memory_record(request: web.Request) -> web.Response:
    """Show one record of an agent's memory with its history."""
    uid, guid = request.match_info["uid"], request.match_info["guid"]
    input: Json = {"guid": guid, "limit": PAGE_SIZE}
    history = await call_operation(request, "records.history", uid, input, STORE)
    states = history["items"]
    present = states[0]["record"]
    latest = next((one["record"] for one in states if one["record"] is not None), {"kind": ""})
    is_episode = present is not None and present["kind"] == EPISODE_KIND
    return await render_page(
        request,
        PAGE,
        "memory_record.html",
        await get_services(request).directory.find(uid),
        guid=guid,
        tab=TAB_OF_KIND.get(latest["kind"], FACTS.noun),
        record=present,
        details=[] if present is None else _list_details(present),
        log=await _read_log(request) if is_episode else None,
        states=[_to_state(state) for state in states],
        total=history["total"],
    )


async def _read_log(request: web.Request) -> Json:
    """Return the first steps of an episode: {"steps", "total_steps", ...}."""
    uid, guid = request.match_info["uid"], request.match_info["guid"]
    input = {"id": guid, "limit": MAX_LOG_STEPS}
    log: Json = await call_operation(request, "episodes.get", uid, input)
    return log


def _list_details(record: Json) -> list[tuple[str, Cell]]:
    """Return the fields of a record with their names, without empty ones."""
    return [
        _to_detail(name, value)
        for name, value in (record | record["data"]).items()
        if name not in HIDDEN_FIELDS and value not in (None, "", [], {})
    ]


def _to_detail(name: str, value: Any) -> tuple[str, Cell]:
    """Return (name, cell). Times are texts, or Unix ms within `data`."""
    if not name.endswith("_at"):
        return name, Cell(to_text(value))
    return name, Cell(format_time(value) if isinstance(value, int) else str(value), "time")


def _to_state(state: Json) -> Json:
    """Return what the history shows of a state."""
    record = state["record"]
    text = "" if record is None else shorten(record["content"])
    return state | {"text": text, "is_deleted": record is None}
