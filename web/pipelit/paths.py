"""Pipelit's paths: each list has two, with and without the prefix that names the pipeline; the last
slash is optional.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import hdrs, web

from memrelay.web.auth.access import RouteHandler
from memrelay.web.server.error_dialects import PIPELINE_PREFIX

WORKFLOWS = "/api/v1/workflows"
HISTORY = WORKFLOWS + "/{workflow}/chat/history"


@dataclass(frozen=True, slots=True)
class Section:
    """A list of Pipelit's memory.

    `noun` is that of its operations. `paths` are the documented path and that of Pipelit's code.
    `filters` maps the parameters of the list to their descriptions.
    """

    noun: str
    paths: tuple[str, str]
    filters: dict[str, str] = field(default_factory=dict)


FACTS = Section(
    "facts",
    ("/api/v1/facts", "/api/v1/memories/facts"),
    {
        "scope": "Only facts of this scope: session, user, agent or global.",
        "fact_type": "Only facts of this type.",
    },
)
EPISODES = Section(
    "episodes",
    ("/api/v1/episodes", "/api/v1/memories/episodes"),
    {"agent_id": "Only episodes of this agent."},
)
PROCEDURES = Section(
    "procedures",
    ("/api/v1/procedures", "/api/v1/memories/procedures"),
    {"agent_id": "Only procedures of this agent."},
)
USERS = Section("users", ("/api/v1/memory-users", "/api/v1/memories/users"))
CHECKPOINTS = Section(
    "checkpoints",
    ("/api/v1/checkpoints", "/api/v1/memories/checkpoints"),
    {"thread_id": "Only checkpoints of this thread."},
)
SECTIONS = (FACTS, EPISODES, PROCEDURES, USERS, CHECKPOINTS)


def serve(
    routes: web.RouteTableDef, method: str, path: str
) -> Callable[[RouteHandler], RouteHandler]:
    """Register a handler at each form of a path."""

    def declare(handler: RouteHandler) -> RouteHandler:
        for form in [prefix + path + end for prefix in ("", PIPELINE_PREFIX) for end in ("", "/")]:
            # GET also answers HEAD.
            register = routes.get(form) if method == hdrs.METH_GET else routes.route(method, form)
            register(handler)
        return handler

    return declare
