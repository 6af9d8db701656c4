"""Pipelit's paths: each list has two, with and without the prefix that names the pipeline; the last
slash is optional.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiohttp import hdrs, web

from memrelay.web.auth.access import RouteHandler
from memrelay.web.server.error_dialects import PIPELINE_PREFIX

WORKFLOWS = "/api/v1/workflows"
HISTORY = WORKFLOWS + "/{workflow}/chat/history"


@dataclass(frozen=True, slots=True)
class Section:
    """A list of Pipelit's memory.

    `noun` is that of its operations. `paths` are the documented one and the one of Pipelit's code.
    `filters` maps the parameters of the list to their descriptions.
    """

    noun: str
    paths: tuple[str, str]
    filters: dict[str, str]


def _section(noun: str, short: str, name: str, filters: dict[str, str]) -> Section:
    return Section(noun, (f"/api/v1/{short}", f"/api/v1/memories/{name}"), filters)


FACTS = _section(
    "facts",
    "facts",
    "facts",
    {
        "scope": "Only facts of this scope: session, user, agent or global.",
        "fact_type": "Only facts of this type.",
    },
)
EPISODES = _section(
    "episodes", "episodes", "episodes", {"agent_id": "Only episodes of this agent."}
)
PROCEDURES = _section(
    "procedures", "procedures", "procedures", {"agent_id": "Only procedures of this agent."}
)
USERS = _section("users", "memory-users", "users", {})
CHECKPOINTS = _section(
    "checkpoints", "checkpoints", "checkpoints", {"thread_id": "Only checkpoints of this thread."}
)
SECTIONS = (FACTS, EPISODES, PROCEDURES, USERS, CHECKPOINTS)


def serve(
    routes: web.RouteTableDef, method: str, paths: Iterable[str]
) -> Callable[[RouteHandler], RouteHandler]:
    """Register a handler at each form of the paths."""

    def declare(handler: RouteHandler) -> RouteHandler:
        forms = [
            prefix + path + end
            for path in paths
            for prefix in ("", PIPELINE_PREFIX)
            for end in ("", "/")
        ]
        for form in forms:
            register = routes.get(form) if method == hdrs.METH_GET else routes.route(method, form)
            register(handler)
        return handler

    return declare
