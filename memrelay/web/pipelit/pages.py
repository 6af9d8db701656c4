"""Pages of Pipelit's lists: their parameters, and their items in Pipelit's shapes."""

from typing import Any, get_type_hints

from aiohttp import web

from memrelay.web.api.operations import call_operation
from memrelay.web.pipelit.paths import CHECKPOINTS, EPISODES, FACTS, PROCEDURES, USERS, Section
from memrelay.web.pipelit.shapes import Checkpoint, Episode, Fact, Procedure, User
from memrelay.web.server.errors import Unprocessable

Json = dict[str, Any]
MAX_LIMIT = 1000
MAX_DIGITS = 15
LIMIT_SCHEMA: Json = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
OFFSET_SCHEMA: Json = {"type": "integer", "minimum": 0}
# The fields of an item. Those of a checkpoint have other names in the operations.
FIELDS = {
    section.noun: tuple(get_type_hints(shape))
    for section, shape in (
        (FACTS, Fact),
        (EPISODES, Episode),
        (PROCEDURES, Procedure),
        (USERS, User),
        (CHECKPOINTS, Checkpoint),
    )
}


async def list_page(request: web.Request, section: Section, uid: str, given: Json) -> Json:
    """Return a page of a section: {"items", "total"}. `given` is as in Pipelit's API.

    Raises Problem.
    """
    given = {"thread" if name == "thread_id" else name: value for name, value in given.items()}
    found = await call_operation(request, f"{section.noun}.list", uid, given)
    items = map(_to_checkpoint, found["items"]) if section is CHECKPOINTS else found["items"]
    fields = FIELDS[section.noun]
    page = [{name: item[name] for name in fields} for item in items]
    return {"items": page, "total": found["total"]}


def parse_integer(request: web.Request, name: str, default: int) -> int:
    """Return an integer parameter. Raises Unprocessable; operations check its range."""
    given = request.query.get(name, str(default))
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
        raise Unprocessable(f"{name} must be an integer, not {given[:20]!r}")
    return int(given)


def _to_checkpoint(item: Json) -> Json:
    step, source = item["metadata"].get("step"), item["metadata"].get("source")
    return {
        "thread_id": item["thread"],
        "checkpoint_ns": item["ns"],
        "checkpoint_id": item["id"],
        "parent_checkpoint_id": item["parent"] or None,
        "step": step if isinstance(step, int) else None,
        "source": source if isinstance(source, str) else None,
        "blob_size": item["size"],
    }
