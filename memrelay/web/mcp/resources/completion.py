"""Completion of the variables in resource templates, and of the arguments of prompts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import mcp_types as types

from memrelay.web.mcp.resources.uris import name_of
from memrelay.web.mcp.tool import JsonObject, Target

# Values of an answer, as the protocol allows. Records arrive whole, so there are fewer of them.
MAX_VALUES = 100
MAX_RECORDS = 20
MAX_PREFIX = 256
# Sorts after every text with the same beginning.
LAST = "\U0010ffff"
PIPELINE_VARIABLES = ("uid", "pipeline")


class _Matches(NamedTuple):
    """The values that begin with the prefix, and whether there are more of them."""

    values: list[str]
    has_more: bool


async def complete(
    targets: Sequence[Target], params: types.CompleteRequestParams
) -> types.CompleteResult:
    """Return the values that begin with what the user typed; none for an unknown argument.

    Raises ToolError.
    """
    prefix, name = params.argument.value, params.argument.name
    given = (params.context and params.context.arguments) or {}
    matches = _Matches([], False)
    if len(prefix) <= MAX_PREFIX:
        matches = await _find_matches(targets, name, prefix, given)
    values = matches.values[:MAX_VALUES]
    has_more = matches.has_more or len(matches.values) > MAX_VALUES
    return types.CompleteResult(completion=types.Completion(values=values, has_more=has_more))


async def _find_matches(
    targets: Sequence[Target], name: str, prefix: str, given: Mapping[str, str]
) -> _Matches:
    if name in PIPELINE_VARIABLES:
        uids = sorted(name_of(target.uid) for target in targets)
        return _Matches([uid for uid in uids if uid.startswith(prefix)], False)
    operation, find = _FINDERS.get(name, ("", None))
    target = _choose_target(targets, given)
    if find is None or target is None or not target.may_call(operation):
        return _Matches([], False)
    return await find(target, prefix)


def _choose_target(targets: Sequence[Target], given: Mapping[str, str]) -> Target | None:
    """Return the pipeline that the other arguments name, or the only one."""
    wanted = next((given[name] for name in PIPELINE_VARIABLES if name in given), None)
    if wanted is None:
        return targets[0] if len(targets) == 1 else None
    return next((target for target in targets if name_of(target.uid) == wanted), None)


async def _find_guids(target: Target, prefix: str) -> _Matches:
    given: JsonObject = {"order": "desc", "limit": MAX_RECORDS}
    if prefix:
        given["filter"] = {"guid": {"gte": prefix, "lt": prefix + LAST}}
    page = await target.call("records.list", given)
    return _Matches([record["guid"] for record in page["items"]], page["next_cursor"] is not None)


async def _find_memory_ids(target: Target, prefix: str) -> _Matches:
    """Find memories by the beginning of their id or name."""
    page = await target.call("memories.list", {"order": "desc", "limit": 1000})
    found = [
        memory["id"]
        for memory in page["items"]
        if memory["id"].startswith(prefix) or memory["name"].lower().startswith(prefix.lower())
    ]
    return _Matches(found, page["next_cursor"] is not None)


async def _find_memory_names(target: Target, prefix: str) -> _Matches:
    page = await target.call("memories.list", {"order": "desc", "limit": 1000})
    names = {memory["name"] for memory in page["items"]}
    found = sorted(name for name in names if name.lower().startswith(prefix.lower()))
    return _Matches(found, page["next_cursor"] is not None)


async def _find_recipe_ids(target: Target, prefix: str) -> _Matches:
    page = await target.call("recipes.list", {})
    return _Matches(
        [recipe["id"] for recipe in page["items"] if recipe["id"].startswith(prefix)], False
    )


_Find = Callable[[Target, str], Awaitable[_Matches]]
# By the name of the variable: the operation that lists the values, and how.
_FINDERS: dict[str, tuple[str, _Find | None]] = {
    "guid": ("records.list", _find_guids),
    "mem": ("memories.list", _find_memory_ids),
    "memory": ("memories.list", _find_memory_names),
    "id": ("recipes.list", _find_recipe_ids),
}
