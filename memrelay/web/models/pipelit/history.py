"""/api/v1/workflows/{workflow}/chat/history: the conversation of a user with a pipeline's agent."""

from typing import Any

from aiohttp import hdrs, web

from memrelay.memory.engine.timestamps import parse_ms
from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import list_visible
from memrelay.web.models.pipelit.errors import PIPELIT, PIPELIT_API
from memrelay.web.models.pipelit.sections import HISTORY, LIMIT_SCHEMA, MAX_LIMIT, parse_integer
from memrelay.web.models.pipelit.shapes import ChatHistory
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.errors import BadRequest, NotFound

routes = web.RouteTableDef()
DEFAULT_LIMIT = 10
# Uids that an error lists.
MAX_LISTED = 20
# The sender of a message that names none.
DEFAULT_USER = "User"
ERRORS = {
    404: "The workflow does not exist.",
    422: "A parameter is invalid.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
CONVERSATION_QUERY = {
    "user_id": f"The user, as `channel:id`, or the name of a speaker. The default is "
    f"{DEFAULT_USER}.",
    "chat_id": "The chat. The default is the conversation without one.",
}
PAGE_QUERY = {
    "limit": f"The maximum number of messages, 1 to {MAX_LIMIT}. The default is {DEFAULT_LIMIT}.",
    "before": "Only messages before this time (ISO 8601), and those without a time.",
}
INVALID_TIME = "Invalid 'before' datetime format; use ISO 8601, such as 2026-11-22T05:00:00Z"


@PIPELIT_API.serve(
    routes,
    hdrs.METH_GET,
    HISTORY,
    "conversations.history",
    {200: "The newest messages.", 400: "`before` is invalid."},
    errors=ERRORS,
    query=PAGE_QUERY | CONVERSATION_QUERY,
    query_schemas={"limit": LIMIT_SCHEMA},
    schemas={200: ChatHistory},
)
async def get_history(request: web.Request) -> web.Response:
    """Return the newest messages of a conversation, the oldest first."""
    refuse_unknown(request, (*PAGE_QUERY, *CONVERSATION_QUERY, PIPELIT.pipeline_parameter))
    before = request.query.get("before", "")
    if before and parse_ms(before) is None:
        raise BadRequest(INVALID_TIME)
    page = {"limit": parse_integer(request, "limit", DEFAULT_LIMIT), "before": before}
    uid, workflows = await _find_workflow(request)
    given = _parse_conversation(request) | workflows | page
    return json_response(await call_operation(request, "conversations.history", uid, given))


@PIPELIT_API.serve(
    routes,
    hdrs.METH_DELETE,
    HISTORY,
    "conversations.clear",
    {204: "The conversation has no messages."},
    errors=ERRORS,
    query=CONVERSATION_QUERY,
)
async def delete_history(request: web.Request) -> web.Response:
    """Delete a conversation."""
    refuse_unknown(request, (*CONVERSATION_QUERY, PIPELIT.pipeline_parameter))
    uid, workflows = await _find_workflow(request)
    given = _parse_conversation(request) | workflows
    await call_operation(request, "conversations.clear", uid, given)
    return web.Response(status=204)


def _parse_conversation(request: web.Request) -> dict[str, Any]:
    query = request.query
    return {"user": query.get("user_id") or DEFAULT_USER, "chat": query.get("chat_id", "")}


async def _find_workflow(request: web.Request) -> tuple[str, dict[str, Any]]:
    """Return the uid of a pipeline, and the workflows in it that the path names.

    The uid or the name of a pipeline covers its uid and each `workflow_id` of its agents. Another
    text is such a `workflow_id`, and covers only that workflow. Raises NotFound, and BadRequest if
    the path names several pipelines.
    """
    name = request.match_info["workflow"]
    is_named = "uid" in request.match_info or request.query.get(PIPELIT.pipeline_parameter)
    within = await find_pipeline(request) if is_named else None
    matches = await _list_matches(request, name, within) or await _list_matches(
        request, name, within, refresh=True
    )
    if not matches:
        raise NotFound("Workflow not found.")
    if len(matches) > 1 and name not in matches:
        raise BadRequest(
            f"{len(matches)} pipelines have the name {name[:100]!r}; use a uid instead: "
            f"{', '.join(list(matches)[:MAX_LISTED])}"
        )
    served = matches.get(name) or next(iter(matches.values()))
    uid = served.deployed.uid
    if name not in (uid, served.deployed.name):
        return uid, {"workflow": name}
    return uid, {"workflow": uid, "more_workflows": sorted(_workflow_ids(served) - {uid})}


async def _list_matches(
    request: web.Request, name: str, within: str | None, *, refresh: bool = False
) -> dict[str, Served]:
    """Return the visible pipelines with this uid, name or `workflow_id`, by uid.

    `within` is the only choice.
    """
    return {
        one.deployed.uid: one
        for one in await list_visible(request, refresh=refresh)
        if name in {one.deployed.uid, one.deployed.name, *_workflow_ids(one)}
        and within in (None, one.deployed.uid)
    }


def _workflow_ids(served: Served) -> set[str]:
    """Return each `workflow_id` of the agents in a pipeline. Only some blocks have one."""
    found = (getattr(agent.args, "workflow_id", "") for agent in served.bundle.agents)
    return {workflow for workflow in found if workflow}
