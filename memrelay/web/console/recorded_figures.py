"""The charts of a day or a week on a page, and the fragment that keeps them fresh."""

from typing import Any

from aiohttp import web

from memrelay.memory.control.figures_file import SPANS
from memrelay.web.auth.access import get_caller, list_visible
from memrelay.web.console.frame import answer_changed, render
from memrelay.web.figures.charts import draw
from memrelay.web.figures.reading import FIGURES

DEFAULT_SPAN = "day"
# Pipelines with links to their messages next to an event of all pipelines.
MAX_LINKED = 3


def parse_span(request: web.Request) -> str:
    """Return the span in the address, the day for an unknown one."""
    span = request.query.get("span", DEFAULT_SPAN)
    return span if span in SPANS else DEFAULT_SPAN


async def figure_values(request: web.Request, span: str, uid: str = "") -> dict[str, Any]:
    """Return the template values of the charts of a pipeline, or of all that the caller sees."""
    found = await request.config_dict[FIGURES].read(span, get_caller(request), uid)
    linked = [(uid, "")]
    if not uid:
        visible = await list_visible(request)
        linked = [(one.deployed.uid, one.deployed.name) for one in visible[: MAX_LINKED + 1]]
    return {
        "recorded": draw(found),
        "linked": linked if len(linked) <= MAX_LINKED else [],
        "figures_url": f"/pipelines/{uid}/figures" if uid else "/status",
    }


async def answer_figures(request: web.Request, span: str, uid: str = "") -> web.Response:
    """Return the charts, or 304 if no minute has been recorded since."""

    async def make() -> web.Response:
        return render(request, "fragments/figures.html", **await figure_values(request, span, uid))

    return await answer_changed(request, request.config_dict[FIGURES].state, make)
