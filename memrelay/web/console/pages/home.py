"""The page `/`: what happens now, what needs a person, the latest memories, and first steps."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.directory import Served
from memrelay.web.api.status import filter_status
from memrelay.web.auth.access import get_caller
from memrelay.web.auth.authorizer import Caller
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask_refusable
from memrelay.web.console.format import format_count, format_pause
from memrelay.web.console.frame import (
    Page,
    PageRoutes,
    answer_changed,
    render,
    render_page,
)
from memrelay.web.console.search_hits import record_url
from memrelay.web.console.shared_reads import NO_WORKERS, STATES, STATUS
from memrelay.web.figures.charts import Chart, describe_count, draw_charts
from memrelay.web.figures.judgement import Judgement, judge
from memrelay.web.figures.reading import CURRENT_S, FIGURES, Figures
from memrelay.web.mcp.transports.routes import APPLICATIONS
from memrelay.web.services import get_services

Json = dict[str, Any]
PAGE = Page("Home", "/", menu="main")
routes = PageRoutes(PAGE)
# Pipelines in the table, in the list of latest memories, and with dead letters.
MAX_ROWS, MAX_READ, MAX_TROUBLED = 8, 4, 8
# Pipelines whose recorded figures are read for faults: as many as are recorded one by one.
MAX_COUNTED = 50
# Latest memories of each store and in all, and the stores of a pipeline.
MAX_RECORDS, MAX_STORES = 6, 2
MAX_TEXT = 400
# How long the page waits for the latest memories. A refresh shows what came later.
PATIENCE_S = 0.1
HOUR_S = 3_600
# Faults that only the recorded figures have, with their state and the page about them.
HOURLY = {
    "unsent": ("bad", "/messages?state=send_failed"),
    "refused": ("slow", "/webhooks#requests-title"),
}
# The counted figures, with the title of their chart and the address of the page about them.
COUNTS = (
    ("done", "Messages", "/status"),
    ("changes", "Changes of memories", "/find"),
    ("searches", "Searches", "/find"),
    ("dead", "Dead letters", "/dead-letters"),
)
DOCUMENTS = (
    ("docs/tutorial.md", "The first hour: send, search, correct"),
    ("docs/which-part.md", "Which part you need, by example"),
    ("docs/mcp.md", "Assistants and editors by MCP"),
    ("docs/blocks.md", "All blocks of pipelines"),
    ("docs/operations.md", "Backups, monitoring, upgrades"),
    ("docs/security.md", "Keys, scopes and networks"),
)


class Count(NamedTuple):
    """How often something happened in the last hour and day. `chart` is None without figures."""

    name: str
    title: str
    url: str
    hour: int
    day: int
    chart: Chart | None


class Need(NamedTuple):
    """Something that needs a person. `state` is `bad` or `slow`."""

    state: str
    subject: str
    text: str
    url: str


class StepToDo(NamedTuple):
    """A first step. `command` is "" if there is only a page."""

    title: str
    text: str
    url: str
    is_done: bool
    command: str = ""


class Latest(NamedTuple):
    """A memory. `title` is the beginning of its text."""

    title: str
    url: str
    kind: str
    pipeline: str
    at: str


class Contents(NamedTuple):
    """The latest memories of stores, the writes that wait for review, and captured sessions."""

    records: tuple[Latest, ...] = ()
    reviews: tuple[Need, ...] = ()
    has_captured: bool = False
    # Whether some pipeline has not answered yet.
    is_partial: bool = False


# The last contents for callers with the same rights, and the state of the pipelines then.
READ = web.AppKey("home", dict[Any, tuple[list[str], Contents]])
MAX_CALLERS = 100


@routes.page()
async def home(request: web.Request) -> web.Response:
    """Show what happens, what needs a person, the latest memories, and first steps."""
    now, contents = await asyncio.gather(_read_now(request), _read(request, PATIENCE_S))
    values = await _list_counts(request) | await _contents_values(request, contents)
    return await render_page(request, PAGE, "home.html", **now, **values)


@routes.fragment("/fragments/home")
async def home_fragment(request: web.Request) -> web.Response:
    """Return what happens now and what needs a person."""
    now = await _read_now(request)
    state = now["needs"], now["rows"], now["total"], request.config_dict[FIGURES].state

    async def make() -> web.Response:
        values = now | await _list_counts(request)
        return render(request, "fragments/home.html", **values, caller=get_caller(request))

    return await answer_changed(request, state, make)


@routes.fragment("/fragments/latest")
async def latest_fragment(request: web.Request) -> web.Response:
    """Return the latest memories and the first steps."""
    served = await _choose_pipelines(request)
    state = await _read_states(request, served)
    steps = [step.is_done for step in await _list_steps(request, has_captured=False)]

    async def make() -> web.Response:
        values = await _contents_values(request, await _read(request, None))
        return render(request, "fragments/latest.html", **values, caller=get_caller(request))

    return await answer_changed(request, (state, steps), make)


async def _read_now(request: web.Request) -> Json:
    """Return the template values of the needs and the table of pipelines."""
    status, caller = await request.config_dict[STATUS].get(), get_caller(request)
    pipelines = await get_services(request).directory.list_pipelines()
    visible = filter_status(status, caller.sees)["pipelines"]
    known = {served.deployed.uid: served for served in pipelines}
    rows = sorted(visible, key=_urgency)[:MAX_ROWS]
    figures = request.config_dict[FIGURES]
    normal = await figures.find_normal(caller)
    latest = await figures.find_latest(caller, CURRENT_S)
    latency = judge("p95_s", latest["p95_s"], normal) if "p95_s" in latest else None
    storage = status["storage"] if caller.sees_all else None
    return {
        "latency": latency,
        "needs": [
            *_list_needs(visible, len(status["workers"]), storage, latency),
            *await _list_hourly_needs(figures, caller, visible),
        ],
        "rows": rows,
        "known": known,
        "total": len(visible),
        "workers": len(status["workers"]),
        "is_old": False,
    }


async def _list_counts(request: web.Request) -> Json:
    """Return the template values of the counts."""
    figures, caller = request.config_dict[FIGURES], get_caller(request)
    counts = await figures.share("home", caller, partial(_make_counts, figures, caller))
    return {"counts": counts}


async def _make_counts(figures: Figures, caller: Caller) -> list[Count]:
    recorded = await figures.read("day", caller)
    steps, last_hour = recorded.steps, recorded.until - HOUR_S
    charts = draw_charts(recorded, [title for _, title, _ in COUNTS])
    return [
        Count(
            name,
            title,
            url,
            _sum(steps, name, last_hour),
            _sum(steps, name, recorded.since),
            charts.get(title),
        )
        for name, title, url in COUNTS
    ]


def _urgency(row: Json) -> tuple[bool, float, str]:
    """Sort troubled pipelines first, then busy ones, then by name."""
    is_well = bool(row["owner"]) and not row["paused"] and not row["dead_letters"]
    return is_well, -row["rate"], row["name"]


def _sum(steps: Sequence[tuple[int, Mapping[str, float]]], name: str, since: int) -> int:
    return round(sum(step.get(name, 0) for at, step in steps if at >= since))


def _list_needs(
    rows: Sequence[Json], workers: int, storage: Json | None, latency: Judgement | None
) -> Iterable[Need]:
    """Yield what needs a person, the most urgent first."""
    if rows and not workers:
        yield Need("bad", "No worker", NO_WORKERS, "/status")
    disk = judge("disk_free_bytes", storage["disk_free_bytes"], {}) if storage else None
    if disk is not None and not disk.is_good:
        yield Need(disk.state, "Free disk", f"{disk.text}: {disk.note}", "/status")
    if latency is not None and latency.state == "bad":
        yield Need("bad", "Time to commit (p95)", f"{latency.text}: {latency.note}", "/status")
    troubled = 0
    for row in rows:
        for need in _list_row_needs(row, workers):
            troubled += 1
            if troubled <= MAX_TROUBLED:
                yield need
    if troubled > MAX_TROUBLED:
        yield Need("bad", "Further problems", format_count(troubled - MAX_TROUBLED), "/pipelines")


async def _list_hourly_needs(
    figures: Figures, caller: Caller, rows: Sequence[Json]
) -> Sequence[Need]:
    """Return what the recorded figures of the last hour have that needs a person."""

    async def make() -> list[Need]:
        hour = await _count_hour(figures, caller)
        if not any(hour.values()):
            return []
        found = list[Need]()
        for row in rows[:MAX_COUNTED]:
            uid = row["pipeline_uid"]
            for kind, count in (await _count_hour(figures, caller, uid)).items():
                if count:
                    state, page = HOURLY[kind]
                    text = f"{describe_count(kind, count)} in the last hour"
                    found.append(Need(state, row["name"], text, f"/pipelines/{uid}{page}"))
        return sorted(found, key=lambda need: need.state)[:MAX_TROUBLED]

    needs: list[Need] = await figures.share("hourly needs", caller, make)
    return needs


async def _count_hour(figures: Figures, caller: Caller, uid: str = "") -> dict[str, int]:
    """Return the counts of HOURLY in the last hour, of a pipeline or of all of them."""
    recorded = await figures.read("day", caller, uid)
    since = recorded.until - HOUR_S
    return {name: _sum(recorded.steps, name, since) for name in HOURLY}


def _list_row_needs(row: Json, workers: int) -> Iterable[Need]:
    """Yield what needs a person in a pipeline."""
    name, url = row["name"], f"/pipelines/{row['pipeline_uid']}"
    if row["paused"]:
        yield Need("bad", name, format_pause(row["paused"]), url)
    elif not row["owner"] and workers:
        yield Need("bad", name, "No worker serves this pipeline.", url)
    if row["dead_letters"]:
        letters = row["dead_letters"]
        words = "1 dead letter" if letters == 1 else f"{format_count(letters)} dead letters"
        text = f"{words}: replay or drop"
        yield Need("bad", name, text, f"/dead-letters?pipeline={row['pipeline_uid']}")
    for endpoint in row.get("deliveries", {}).get("trouble", ()):
        if not endpoint["is_paused"]:
            is_off = bool(endpoint["disabled"])
            words = "was switched off" if is_off else "fails"
            text = f"The endpoint {endpoint['url']} {words}: {endpoint['last_answer']}"
            yield Need("bad", name, text, f"{url}/endpoints/{quote(endpoint['id'], safe='')}")
    for field, words in (("vectors_fault", "Vectors"), ("erasure_fault", "An erasure waits")):
        if row[field]:
            yield Need("slow", name, f"{words}: {row[field]}", "/status")


async def _choose_pipelines(request: web.Request) -> list[Served]:
    """Return the busiest pipelines that can answer now."""
    status, caller = await request.config_dict[STATUS].get(), get_caller(request)
    known = {
        served.deployed.uid: served
        for served in await get_services(request).directory.list_pipelines()
    }
    rows = filter_status(status, caller.sees)["pipelines"]
    able = [
        row for row in rows if row["owner"] and not row["paused"] and row["pipeline_uid"] in known
    ]
    able.sort(key=lambda row: (-row["changes"], -row["done"], row["name"]))
    return [known[row["pipeline_uid"]] for row in able[:MAX_READ]]


async def _read(request: web.Request, patience_s: float | None) -> Contents:
    """Return the contents of the busiest pipelines, of those that answer in time."""
    try:
        served = await _choose_pipelines(request)
    except (BusError, StoreBusy, StoreBroken):
        return Contents(is_partial=True)
    if not served:
        return Contents()
    state, caller = await _read_states(request, served), get_caller(request)
    known, key = request.config_dict[READ], (caller.scopes, caller.pipelines)
    if key in known and known[key][0] == state:
        return known[key][1]
    found = await _read_pipelines(request, served, patience_s)
    if len(known) >= MAX_CALLERS:
        known.clear()
    if not found.is_partial:
        known[key] = state, found
    return found


async def _read_states(request: web.Request, pipelines: Sequence[Served]) -> list[str]:
    """Return a value that changes with the contents of pipelines, and each hour."""
    states = request.config_dict[STATES]
    hour = str(int(time.time() // HOUR_S))
    return [hour, *[await states.get(served) for served in pipelines]]


async def _read_pipelines(
    request: web.Request, served: Sequence[Served], patience_s: float | None
) -> Contents:
    """Return the contents of some pipelines, of those that answer in time."""
    tasks = [asyncio.create_task(_read_pipeline(request, one)) for one in served]
    done, late = await asyncio.wait(tasks, timeout=patience_s)
    for task in late:
        task.cancel()
    parts = [task.result() for task in tasks if task in done]
    records = sorted((one for part in parts for one in part.records), key=lambda one: one.at)
    return Contents(
        tuple(reversed(records))[:MAX_RECORDS],
        tuple(need for part in parts for need in part.reviews),
        any(part.has_captured for part in parts),
        bool(late),
    )


async def _read_pipeline(request: web.Request, served: Served) -> Contents:
    """Return the contents of a pipeline."""
    uid, name, caller = served.deployed.uid, served.deployed.name, get_caller(request)
    stores = list_record_stores(served)[:MAX_STORES]
    latest = {"order": "desc", "limit": MAX_RECORDS}
    calls = [Call("records.list", latest, store) for store in stores]
    if "review" in caller.scopes:
        calls += [Call("reviews.list", {"limit": 100}, store) for store in stores]
    calls.append(Call("capture.sessions", {}, stores[0]))
    answers = await asyncio.gather(*(ask_refusable(request, uid, call) for call in calls))
    records, waiting, has_captured = list[Latest](), 0, False
    for call, answer in zip(calls, answers, strict=True):
        items = answer.output["items"] if answer.output else []
        if call.name == "records.list":
            records += [_make_latest(uid, name, call.store, item) for item in items]
        elif call.name == "reviews.list":
            waiting += len(items)
        else:
            has_captured = bool(items)
    reviews: tuple[Need, ...] = ()
    if waiting:
        count = (
            "1 write waits" if waiting == 1 else f"{waiting}{'+' * (waiting >= 100)} writes wait"
        )
        text = f"{count} for review"
        reviews = (Need("slow", name, text, f"/pipelines/{uid}/reviews"),)
    return Contents(tuple(records), reviews, has_captured)


def _make_latest(uid: str, name: str, store: str, record: Json) -> Latest:
    title = record["content"][:MAX_TEXT]
    url = record_url(uid, store, record["guid"])
    return Latest(title, url, record["kind"], name, record["created_at"])


async def _contents_values(request: web.Request, contents: Contents) -> Json:
    """Return the template values of the memories and the first steps."""
    steps = await _list_steps(request, has_captured=contents.has_captured)
    return {"contents": contents, "steps": steps, "documents": DOCUMENTS}


async def _list_steps(request: web.Request, *, has_captured: bool) -> list[StepToDo]:
    """Return the first steps, each done if what it makes exists."""
    services, caller = get_services(request), get_caller(request)
    status = await request.config_dict[STATUS].get()
    rows = filter_status(status, caller.sees)["pipelines"]
    first = f"/pipelines/{rows[0]['pipeline_uid']}" if rows else "/pipelines"
    normal = await request.config_dict[FIGURES].find_latest(caller)
    has_messages = any(row["done"] or row["store_bytes"] for row in rows)
    has_searched = any(row["searches"] for row in rows) or bool(normal.get("searches"))
    uses_mcp = request.config_dict[APPLICATIONS].was_used or has_searched
    new = "/pipelines/new" if "deploy" in caller.scopes else ""
    return [
        StepToDo(
            "Make a pipeline",
            f"made: {rows[0]['name'][:60]}" if rows else "from a template or a file",
            new,
            bool(rows),
        ),
        StepToDo("Send a message", "in the chat of a pipeline", first, has_messages),
        StepToDo(
            "Connect an assistant",
            "by MCP: Claude, Cursor, VS Code and others (docs/mcp.md)",
            "",
            uses_mcp,
            "mcp --print claude-code PIPELINE",
        ),
        StepToDo(
            "Capture coding tools",
            "so that the next session knows the last one (docs/capture.md)",
            f"{first}/captured" if rows else "",
            has_captured,
            "capture install claude-code",
        ),
        StepToDo(
            "Create a key",
            "before other machines or people get access",
            "/keys" if "admin" in caller.scopes and caller.sees_all else "",
            services.authorizer.requires_key(),
        ),
    ]
