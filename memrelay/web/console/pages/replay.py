"""The page "Replay", which runs kept inputs of a pipeline again."""

from typing import Any

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.frame import Page, PageRoutes

PAGE = Page("Replay", "/pipelines/{uid}/replay", menu="pipeline", order=60, parent="Pipelines")
routes = PageRoutes(PAGE, errors={404: "There is no such pipeline."})


@routes.pipeline_page("replay.html")
async def replay(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a form that counts kept inputs and runs them again."""
    return {
        "inputs_days": served.bundle.inputs_days,
        "agents": sorted({one.agent.alias for one in served.bundle.agents}),
    }
