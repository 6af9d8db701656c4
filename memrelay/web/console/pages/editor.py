"""The pages on which a pipeline is made and changed: `/pipelines/new` and `/pipelines/UID/edit`.

Their script (editor/, built into static/editor/) reads and writes through the public API.
"""

import re
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import requires
from memrelay.web.console.format import clip_bytes
from memrelay.web.console.frame import Page, PageRoutes, render_page
from memrelay.web.console.pages.bundle import MAX_SHOWN_BYTES, parse_number, read_bundle_text
from memrelay.web.console.pages.webhooks import describe_reach
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services
from memrelay.web.webhooks.requests import list_receivers
from memrelay.web.webhooks.sample_requests import SAMPLES

NEW_PAGE = Page("New pipeline", "/pipelines/new", parent="Pipelines", scopes=("deploy",))
new_routes = PageRoutes(NEW_PAGE, access=requires("deploy"))
PAGE = Page("Editor", "/pipelines/{uid}/edit", menu="pipeline", order=5, parent="Pipelines")
QUERY = {"deployed": "The number of the version that was just deployed, to show the next steps."}
ERRORS = {400: "A parameter is invalid.", 404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)
MAX_URLS = 20


@new_routes.page()
async def new_pipeline(request: web.Request) -> web.Response:
    """Choose a template, and edit its copy until it is deployed."""
    return await render_page(
        request,
        NEW_PAGE,
        "editor_new.html",
        samples=_list_samples(),
        public_url=find_public_url(request),
    )


@routes.pipeline_page("editor.html")
async def edit(request: web.Request, served: Served) -> dict[str, Any]:
    """Edit the bundle of a pipeline. After a deploy, also show what to do next."""
    shown = clip_bytes(await read_bundle_text(request, served.deployed), MAX_SHOWN_BYTES)
    deployed = parse_number(request, "deployed", 0)
    return {
        "samples": _list_samples(),
        "text": shown.text,
        "is_long": shown.hidden > 0,
        "active": served.deployed,
        "keeps_inputs": served.bundle.inputs_days > 0,
        "deployed": deployed,
        "webhooks": await _list_webhooks(request, served) if deployed else [],
        "public_url": find_public_url(request),
        **describe_reach(request),
        "has_chat": any(agent.block.name == "chat_agent" for agent in served.bundle.agents),
    }


async def _list_webhooks(request: web.Request, served: Served) -> list[dict[str, Any]]:
    """Return each agent made for webhooks: its alias, URL, and references without a value."""
    base = f"{find_public_url(request)}/webhooks/{served.deployed.uid}"
    agents = [one for one in list_receivers(served.agents.values()) if _is_for_webhooks(one)]
    return [
        {
            "alias": one.agent.alias,
            "url": f"{base}/{quote(one.agent.alias)}",
            "is_guarded": bool(one.secrets or one.token),
            "guard": "wf_webhook_secret" if one.secrets else "wf_webhook_token",
            "missing": await _list_missing(request, one),
        }
        for one in agents[:MAX_URLS]
    ]


async def _list_missing(request: web.Request, one: CheckedAgent) -> list[tuple[str, str]]:
    """Return the references of an agent that have no value, each with its key in the bundle."""
    places = [(place, "wf_webhook_secret") for place in one.secrets]
    places += [(one.token, "wf_webhook_token"), (one.verify, "wf_webhook_verify")]
    missing = []
    for place, key in places:
        if not place:
            continue
        try:
            await get_services(request).secrets.resolve(place)
        except LookupError:
            missing.append((place, key))
    return missing


def _is_for_webhooks(one: CheckedAgent) -> bool:
    has_timer = bool(one.interval_ms or one.cron)
    return one.sender is not None or one.is_guarded or not (one.rec_swarm or has_timer)


def _list_samples() -> str:
    """Return the sample bodies of webhooks, by sender, as JSON."""
    text = re.sub(r'"@now_(s|ms)"', "1767225600", SAMPLES.read_text("utf-8"))
    samples = orjson.loads(text.replace("@time", "2026-01-01T00:00:00Z").replace("@id", "1"))
    return orjson.dumps(samples).decode()
