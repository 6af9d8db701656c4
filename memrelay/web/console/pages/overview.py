"""The page `/pipelines`: the table of all pipelines."""

from typing import Any

from aiohttp import web

from memrelay.memory.validation import parse_number
from memrelay.web.api.status import filter_status
from memrelay.web.auth.access import get_caller
from memrelay.web.console.frame import Page, PageRoutes, answer_tagged, render_page
from memrelay.web.console.pipeline_values import digest_values
from memrelay.web.console.shared_reads import STATUS
from memrelay.web.services import get_services

PAGE = Page("Pipelines", "/pipelines", menu="main", order=5)
PIPELINES_PER_PAGE = 20
routes = PageRoutes(PAGE)


@routes.page(query={"page": "The page of the list of pipelines."})
async def overview(request: web.Request) -> web.Response:
    """Show all pipelines."""
    return await render_page(request, PAGE, "overview.html", **await _overview_values(request))


@routes.fragment(
    "/fragments/overview",
    query={"page": "As for the overview.", "seen": "The digest of the open page."},
)
async def overview_fragment(request: web.Request) -> web.Response:
    """Return the table of the overview."""
    values = await _overview_values(request)
    state = values["rows"], values["is_old"], values["workers"]
    return await answer_tagged(request, state, "fragments/overview.html", **values)


async def _overview_values(request: web.Request) -> dict[str, Any]:
    """Return the template values of the overview: one page of the pipelines, by name."""
    status = await request.config_dict[STATUS].get()
    pipelines = await get_services(request).directory.list_pipelines()
    caller = get_caller(request)
    visible = filter_status(status, caller.sees)["pipelines"]
    number = _parse_page_number(request, len(visible))
    rows = visible[(number - 1) * PIPELINES_PER_PAGE : number * PIPELINES_PER_PAGE]
    known = {served.deployed.uid: served for served in pipelines}
    return {
        "rows": rows,
        "known": known,
        "workers": len(status["workers"]),
        "number": number,
        "has_more": number * PIPELINES_PER_PAGE < len(visible),
        **digest_values(request, [(row["pipeline_uid"], row["hash"]) for row in rows]),
    }


def _parse_page_number(request: web.Request, total: int) -> int:
    """Return the number of the page in the address, or of the nearest existing one."""
    number = parse_number(request.query.get("page", ""), 1)
    return max(1, min(number, -(-total // PIPELINES_PER_PAGE)))
