"""The page /memories: facts, episodes, checkpoints, procedures and users of a pipeline's agents.

The page is rendered from the same operations as Pipelit's REST paths. A script shows times in the
browser's time zone, and sends deletions to the REST paths.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.frame import as_page, render
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import get_services

Json = dict[str, Any]
routes = web.RouteTableDef()
PAGE_SIZE = 50
MAX_PAGE_BUTTONS = 5
MAX_CHARACTERS = 60
NONE = "—"
SCOPES = ("global", "agent", "user", "session")
FACT_TYPES = (
    "user_preference",
    "world_knowledge",
    "self_knowledge",
    "correction",
    "relationship",
)


class Cell(NamedTuple):
    """A table cell. `sort` is "", "badge", "code", "number" or "time"."""

    text: str
    sort: str = ""


class Row(NamedTuple):
    """A table row. `ident` selects it for deletion, and `link` is its record's page or ""."""

    ident: str
    cells: list[Cell]
    link: str = ""


class Choice(NamedTuple):
    """A filter of a tab: the values that a visitor can choose from, or none for a text field."""

    name: str
    label: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the page. `noun` is that of its operations."""

    noun: str
    title: str
    columns: tuple[str, ...]
    empty: str
    to_cells: Callable[[Json], list[Cell]]
    filters: tuple[Choice, ...] = ()
    # The REST path that deletes the selected rows, and the field of its body.
    deletion: str = ""
    ids: str = "ids"
    has_records: bool = True


def _clip(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


def _to_text(value: Any) -> str:
    """Return a fact's value as text; objects and arrays as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _fact_cells(fact: Json) -> list[Cell]:
    return [
        Cell(fact["key"]),
        Cell(_clip(_to_text(fact["value"]))),
        Cell(fact["scope"], "badge"),
        Cell(fact["fact_type"], "badge"),
        Cell(f"{fact['confidence']:.0%}", "number"),
        Cell(f"{fact['access_count']:,}", "number"),
        Cell(fact["updated_at"], "time"),
    ]


def _episode_cells(episode: Json) -> list[Cell]:
    took_ms = episode["duration_ms"]
    return [
        Cell(episode["agent_id"]),
        Cell(episode["trigger_type"], "badge"),
        Cell("Yes" if episode["success"] else "No", "badge"),
        Cell(_clip(episode["summary"] or NONE)),
        Cell(episode["started_at"], "time"),
        Cell(NONE if took_ms is None else f"{took_ms / 1000:.1f}s", "number"),
    ]


def _checkpoint_cells(checkpoint: Json) -> list[Cell]:
    step = checkpoint["step"]
    return [
        Cell(checkpoint["thread_id"]),
        Cell(_short_id(checkpoint["checkpoint_id"]), "code"),
        Cell(_short_id(checkpoint["parent_checkpoint_id"] or ""), "code"),
        Cell(NONE if step is None else str(step), "number"),
        Cell(checkpoint["source"] or NONE, "badge"),
        Cell(_format_bytes(checkpoint["blob_size"]), "number"),
    ]


def _procedure_cells(procedure: Json) -> list[Cell]:
    return [
        Cell(procedure["name"]),
        Cell(procedure["agent_id"]),
        Cell(procedure["procedure_type"], "badge"),
        Cell(f"{procedure['times_used']:,}", "number"),
        Cell(f"{procedure['success_rate']:.0%}", "number"),
        Cell("Yes" if procedure["is_active"] else "No", "badge"),
    ]


def _user_cells(user: Json) -> list[Cell]:
    return [
        Cell(user["display_name"] or NONE),
        Cell(user["canonical_id"], "code"),
        Cell(user["telegram_id"] or NONE),
        Cell(user["email"] or NONE),
        Cell(f"{user['total_conversations']:,}", "number"),
        Cell(user["last_seen_at"], "time"),
    ]


def _short_id(ident: str) -> str:
    return f"{ident[:12]}…" if len(ident) > 12 else ident or NONE


def _format_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


TABS = {
    tab.noun: tab
    for tab in (
        Tab(
            "facts",
            "Facts",
            ("Key", "Value", "Scope", "Type", "Confidence", "Accessed", "Updated"),
            "No facts stored yet",
            _fact_cells,
            (Choice("scope", "Scope", SCOPES), Choice("fact_type", "Type", FACT_TYPES)),
            "/api/v1/facts/batch-delete/",
        ),
        Tab(
            "episodes",
            "Episodes",
            ("Agent", "Trigger", "Success", "Summary", "Started", "Duration"),
            "No episodes recorded yet",
            _episode_cells,
            (Choice("agent_id", "Agent"),),
            "/api/v1/episodes/batch-delete/",
        ),
        Tab(
            "checkpoints",
            "Checkpoints",
            ("Thread ID", "Checkpoint ID", "Parent", "Step", "Source", "Blob Size"),
            "No checkpoints found",
            _checkpoint_cells,
            (Choice("thread_id", "Thread"),),
            "/api/v1/checkpoints/batch-delete/",
            "checkpoint_ids",
            has_records=False,
        ),
        Tab(
            "procedures",
            "Procedures",
            ("Name", "Agent", "Type", "Used", "Success Rate", "Active"),
            "No procedures learned yet",
            _procedure_cells,
            (Choice("agent_id", "Agent"),),
            "/api/v1/procedures/batch-delete/",
        ),
        Tab(
            "users",
            "Users",
            ("Name", "Canonical ID", "Telegram", "Email", "Conversations", "Last Seen"),
            "No users identified yet",
            _user_cells,
            (),
            "/api/v1/memory-users/batch-delete/",
        ),
    )
}


class Pager(NamedTuple):
    """The pages of a list: `numbers` are those with a button."""

    number: int
    first: int
    last: int
    total: int
    pages: int
    numbers: range


@dataclass(frozen=True, slots=True)
class _View:
    """What a visitor looks at: a tab of a pipeline, its filters, a search, and a page."""

    tab: Tab
    uid: str
    number: int = 1
    query: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)

    def url(self, **changes: Any) -> str:
        """Return the address of this view with changes; an empty value is omitted."""
        given = {"tab": self.tab.noun, "pipeline": self.uid, "q": self.query, **self.filters}
        given |= {"page": self.number if self.number > 1 else "", **changes}
        return f"/memories?{urlencode({name: value for name, value in given.items() if value})}"


@routes.get("/memories")
@documented(
    {200: "The page.", 303: "Login required."},
    media_type=HTML,
    query={
        "tab": f"The tab: {', '.join(TABS)}.",
        "pipeline": "The uid of the pipeline. The default is the first one.",
        "page": "The number of the page.",
        "q": "Only facts that match this search.",
        "scope": "Only facts of this scope.",
        "fact_type": "Only facts of this type.",
        "agent_id": "Only episodes or procedures of this agent.",
        "thread_id": "Only checkpoints of this thread.",
    },
)
@as_page
@requires("read")
async def memories(request: web.Request) -> web.Response:
    """Show what the agents of a pipeline remember."""
    pipelines = await _list_pipelines(request)
    if not pipelines:
        return render("memories.html", view=None, tabs=TABS.values(), caller=get_caller(request))
    view = _parse_view(request, pipelines)
    rows, pager = await _read_page(request, view)
    return render(
        "memories.html",
        view=view,
        tabs=TABS.values(),
        pipelines=pipelines,
        rows=rows,
        pager=pager,
        caller=get_caller(request),
    )


async def _list_pipelines(request: web.Request) -> list[Served]:
    sees = get_caller(request).sees
    every = await get_services(request).directory.list_pipelines()
    return [one for one in every if sees(one.deployed.uid)]


def _parse_view(request: web.Request, pipelines: list[Served]) -> _View:
    """Return the view that the URL names. Raises NotFound for an unknown tab or pipeline."""
    query = request.query
    tab = TABS.get(query.get("tab", "facts"))
    if tab is None:
        raise NotFound(f"There is no tab {query['tab'][:50]!r}; there are {', '.join(TABS)}.")
    uid = query.get("pipeline") or pipelines[0].deployed.uid
    if uid not in [one.deployed.uid for one in pipelines]:
        raise NotFound(f"No pipeline {uid[:100]!r} is active.")
    filters = {one.name: query[one.name] for one in tab.filters if query.get(one.name)}
    return _View(tab, uid, _parse_number(query.get("page", "1")), query.get("q", ""), filters)


def _parse_number(given: str) -> int:
    is_number = given.isascii() and given.isdecimal() and len(given) < 8
    return max(1, int(given)) if is_number else 1


async def _read_page(request: web.Request, view: _View) -> tuple[list[Row], Pager]:
    """Return a page of a tab. A page behind the last one leads to the last one."""
    number = view.number
    found = await _list(request, view, number)
    if not found["items"] and found["total"]:
        number = -(-found["total"] // PAGE_SIZE)
        found = await _list(request, view, number)
    rows = [_to_row(view, item) for item in found["items"]]
    return rows, _make_pager(number, found["total"], len(rows))


async def _list(request: web.Request, view: _View, number: int) -> Json:
    given: Json = dict(view.filters) | {"limit": PAGE_SIZE, "offset": (number - 1) * PAGE_SIZE}
    if view.query and view.tab.noun == "facts":
        given["q"] = view.query
    found: Json = await call_operation(request, f"{view.tab.noun}.list", view.uid, given)
    return found


def _to_row(view: _View, item: Json) -> Row:
    ident = item["id"] if view.tab.has_records else item["checkpoint_id"]
    link = f"/memories/{view.uid}/{ident}" if view.tab.has_records else ""
    return Row(ident, view.tab.to_cells(item), link)


def _make_pager(number: int, total: int, shown: int) -> Pager:
    pages = -(-total // PAGE_SIZE)
    first_button = max(1, min(number - MAX_PAGE_BUTTONS // 2, pages - MAX_PAGE_BUTTONS + 1))
    numbers = range(first_button, min(pages, first_button + MAX_PAGE_BUTTONS - 1) + 1)
    first = (number - 1) * PAGE_SIZE + 1
    return Pager(number, first, first + shown - 1, total, pages, numbers)


@routes.get("/memories/{uid}/{guid}")
@documented({200: "The page.", 303: "Login required."}, media_type=HTML)
@as_page
@requires("read")
async def memory_record(request: web.Request) -> web.Response:
    """Show one record of an agent's memory with its history."""
    uid, guid = request.match_info["uid"], request.match_info["guid"]
    given: Json = {"guid": guid}
    history = await call_operation(request, "records.history", uid, given | {"limit": PAGE_SIZE})
    present = history["items"][0]["record"]
    return render(
        "memory_record.html",
        uid=uid,
        guid=guid,
        record=present,
        details=[] if present is None else _details_of(present),
        states=[_to_state(state) for state in history["items"]],
        total=history["total"],
        caller=get_caller(request),
    )


def _details_of(record: Json) -> list[tuple[str, str]]:
    """Return the fields of a record and their texts; empty ones are omitted."""
    fields = record | record["data"]
    hidden = ("data", "version", "in_context", "seq", "source", "content", "guid")
    return [
        (name, _to_text(value))
        for name, value in fields.items()
        if name not in hidden and value not in (None, "", [], {})
    ]


def _to_state(state: Json) -> Json:
    """Return what the history shows of a state."""
    record = state["record"]
    content = "" if record is None else record["content"]
    return state | {"text": _clip(content), "is_deleted": record is None}
