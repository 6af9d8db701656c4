"""The page `/status`: bus, workers, pipelines with charts, stores, and the last backup.

The address also returns the status as JSON, for programs (memrelay/web/api/health.py).
"""

import re
from collections.abc import Mapping
from functools import wraps
from typing import Any

from aiohttp import hdrs, web

from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api import health
from memrelay.web.api.status import filter_status
from memrelay.web.auth.access import RouteHandler, get_caller, requires
from memrelay.web.console.frame import Page, PageRoutes, answer_tagged, as_page, render_page
from memrelay.web.console.recorded_figures import answer_figures, figure_values, parse_span
from memrelay.web.console.shared_reads import STATUS
from memrelay.web.figures.judgement import Judgement, judge
from memrelay.web.figures.reading import CURRENT_S, FIGURES
from memrelay.web.openapi.route_docs import HTML
from memrelay.web.services import get_services

PAGE = Page("Status", "/status", menu="main", order=30)
routes = PageRoutes(PAGE)
# Pipelines in the table and the charts, so that the page stays small.
MAX_PIPELINES = 200
WEIGHT = re.compile(r"q=(1(?:\.0{0,3})?|0(?:\.\d{0,3})?)")
JSON = "application/json"
# Faults of a pipeline that its owner reports, with the words before them.
FAULTS = (
    ("paused", "Paused"),
    ("vectors_fault", "Vectors are not computed"),
    ("erasure_fault", "An erasure waits"),
)


def prefers_html(accept: str) -> bool:
    """Return whether an Accept header gives text/html a higher weight than JSON.

    curl and most programs accept everything alike. A browser names text/html.
    """
    weights = dict(map(_parse_range, accept.split(",")))
    weight_of_any = weights.get("*/*", 0.0)
    html = weights.get(HTML, weights.get("text/*", weight_of_any))
    return html > weights.get(JSON, weights.get("application/*", weight_of_any))


def _parse_range(text: str) -> tuple[str, float]:
    """Return the media type of a part of an Accept header, and its weight."""
    media_type, *parameters = (part.strip().lower() for part in text.split(";"))
    weight = next(filter(None, map(WEIGHT.fullmatch, parameters)), None)
    return media_type, 1.0 if weight is None else float(weight[1])


@as_page
@requires("read")
async def _show_page(request: web.Request) -> web.Response:
    values = await _status_values(request) | await figure_values(request, parse_span(request))
    return await render_page(request, PAGE, "status.html", **values)


def _choose(program: RouteHandler) -> RouteHandler:
    """Return a handler that shows the page to browsers and calls `program` for other clients."""

    @wraps(program)
    async def choose(request: web.Request) -> web.StreamResponse:
        wants_page = request.query.get("format") != "json" and prefers_html(
            request.headers.get(hdrs.ACCEPT, "")
        )
        response = await (_show_page if wants_page else program)(request)
        response.headers[hdrs.VARY] = hdrs.ACCEPT
        return response

    return choose


routes.get(PAGE.path)(_choose(health.status))


@routes.fragment("/status/parts", responses={304: "The status has not changed."})
async def status_parts(request: web.Request) -> web.Response:
    """Return the parts of the page that change."""
    values = await _status_values(request)
    return await answer_tagged(request, values, "fragments/status.html", **values)


@routes.fragment("/status/figures", query={"span": "`day` or `week`."})
async def status_figures(request: web.Request) -> web.Response:
    """Return the charts of the page."""
    return await answer_figures(request, parse_span(request))


async def _status_values(request: web.Request) -> dict[str, Any]:
    """Return the template values, limited to the pipelines of the caller."""
    services, caller = get_services(request), get_caller(request)
    whole = await request.config_dict[STATUS].get()
    status = whole if caller.sees_all else filter_status(whole, caller.sees)
    rows = status["pipelines"]
    figures = request.config_dict[FIGURES]
    normal = await figures.find_normal(caller)
    latest = await figures.find_latest(caller, CURRENT_S)
    backup_ms = status.get("storage", {}).get("last_backup_at", 0)
    return {
        "bus": services.options.bus_name if caller.sees_all else "",
        "settings": status["durability"],
        "storage": status.get("storage"),
        "disk": judge("disk_free_bytes", status["storage"]["disk_free_bytes"], {})
        if "storage" in status
        else None,
        "latency": judge("p95_s", latest["p95_s"], normal) if "p95_s" in latest else None,
        "backup_at": format_time(backup_ms) if backup_ms else "",
        "workers": [
            worker
            | {
                "started": format_time(worker["started_at"]),
                "silent_s": round(worker["silent_s"]),
                "lag": judge("loop_lag_ms", worker["loop_lag_ms"], normal),
            }
            for worker in status["workers"]
        ],
        "rows": [
            row | {"judged": judge_row(row, await figures.find_normal(caller, row["pipeline_uid"]))}
            for row in rows[:MAX_PIPELINES]
        ],
        "total": len(rows),
        "faults": [
            (row["pipeline_uid"], row["name"], f"{words}: {row[field]}")
            for row in rows
            for field, words in FAULTS
            if row[field]
        ],
    }


def judge_row(row: dict[str, Any], normal: Mapping[str, float]) -> dict[str, Judgement]:
    """Return the judged figures of a pipeline's row in the status."""
    fields = {"waiting": "lag"}
    return {
        name: judge(name, row[fields.get(name, name)], normal)
        for name in ("waiting", "oldest_s", "wal_bytes", "vectors_todo")
    }
