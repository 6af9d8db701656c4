"""Pipelit's lists: their paths, parameters and pages of items. Each list has two paths."""

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from memrelay.web.api.operations import call_operation
from memrelay.web.models.pipelit import shapes
from memrelay.web.models.shapes import to_shape
from memrelay.web.server.errors import Unprocessable

WORKFLOWS = "/api/v1/workflows"
HISTORY = WORKFLOWS + "/{workflow}/chat/history"
Json = dict[str, Any]
MAX_LIMIT = 1000
MAX_DIGITS = 15
LIMIT_SCHEMA: Json = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
OFFSET_SCHEMA: Json = {"type": "integer", "minimum": 0}


@dataclass(frozen=True, slots=True)
class Section:
    """A list of Pipelit's memory.

    `noun` is that of its operations. `paths` are the documented path and that of Pipelit's code.
    `page` is the shape of a page. `filters` maps the parameters of the list to their descriptions.
    """

    noun: str
    paths: tuple[str, str]
    page: Any
    filters: dict[str, str] = field(default_factory=dict)


FACTS = Section(
    "facts",
    ("/api/v1/facts", "/api/v1/memories/facts"),
    shapes.Facts,
    {
        "scope": "Only facts of this scope: session, user, agent or global.",
        "fact_type": "Only facts of this type.",
    },
)
EPISODES = Section(
    "episodes",
    ("/api/v1/episodes", "/api/v1/memories/episodes"),
    shapes.Episodes,
    {"agent_id": "Only episodes of this agent."},
)
PROCEDURES = Section(
    "procedures",
    ("/api/v1/procedures", "/api/v1/memories/procedures"),
    shapes.Procedures,
    {"agent_id": "Only procedures of this agent."},
)
USERS = Section("users", ("/api/v1/memory-users", "/api/v1/memories/users"), shapes.Users)
CHECKPOINTS = Section(
    "checkpoints",
    ("/api/v1/checkpoints", "/api/v1/memories/checkpoints"),
    shapes.Checkpoints,
    {"thread_id": "Only checkpoints of this thread."},
)
SECTIONS = (FACTS, EPISODES, PROCEDURES, USERS, CHECKPOINTS)


async def list_page(
    request: web.Request, section: Section, uid: str, given: Json, *, as_of: str = ""
) -> Json:
    """Return a page of a section: {"items", "total"}. `given` is as in Pipelit's API. `as_of` reads
    the state of a past time.

    Raises Problem.
    """
    given = {"thread" if name == "thread_id" else name: value for name, value in given.items()}
    output = await call_operation(request, f"{section.noun}.list", uid, given, as_of=as_of)
    if section is CHECKPOINTS:
        output = output | {"items": [_add_metadata(one) for one in output["items"]]}
    page: Json = to_shape(section.page, output)
    return page


def parse_integer(request: web.Request, name: str, default: int) -> int:
    """Return an integer parameter. Raises Unprocessable; operations check its range."""
    given = request.query.get(name, str(default))
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
        raise Unprocessable(f"{name} must be an integer, not {given[:20]!r}")
    return int(given)


def _add_metadata(checkpoint: Json) -> Json:
    """Return a checkpoint with the fields that Pipelit takes from its metadata."""
    step, source = checkpoint["metadata"].get("step"), checkpoint["metadata"].get("source")
    return checkpoint | {
        "parent": checkpoint["parent"] or None,
        "step": step if isinstance(step, int) else None,
        "source": source if isinstance(source, str) else None,
    }
