"""The tab `Figures` of a pipeline: its charts of a day or a week."""

from typing import Any

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.frame import Page, PageRoutes, find_served
from memrelay.web.console.recorded_figures import answer_figures, figure_values, parse_span

PAGE = Page("Figures", "/pipelines/{uid}/figures", menu="pipeline", order=48, parent="Pipelines")
QUERY = {"span": "`day` or `week`."}
routes = PageRoutes(PAGE, errors={404: "There is no such pipeline."}, query=QUERY)


@routes.pipeline_page("pipeline_figures.html", ident="console.pipeline_figures")
async def pipeline_figures(request: web.Request, served: Served) -> dict[str, Any]:
    """Show what a pipeline did in the last day or week."""
    return await figure_values(request, parse_span(request), served.deployed.uid)


@routes.fragment(PAGE.path + "/charts")
async def pipeline_charts(request: web.Request) -> web.Response:
    """Return the charts of a pipeline."""
    served = await find_served(request)
    return await answer_figures(request, parse_span(request), served.deployed.uid)
