"""Steps that group or merge items."""

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Annotated, Literal

from annotated_types import MinLen

from memrelay.memory.models.recipes.execution.items import (
    compact,
    first_of_each,
    flatten,
    read_source,
    sort_descending,
)
from memrelay.memory.models.recipes.execution.values import MISSING, get_field
from memrelay.memory.models.recipes.step import Items, StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
    """Parameters of `group_by`."""

    field: str
    """The field whose value names the group. Items without it form the group `""`."""


@step("group_by", "aggregation", reads=("list", "groups"), returns=("groups",))
def group_by(params: GroupBy, call: StepCall) -> dict[str, Items]:
    """Return the items in groups of equal values, in the order of their first items."""
    groups: dict[str, Items] = {}
    for item in call.items:
        value = get_field(item, params.field)
        groups.setdefault("" if value is MISSING else compact(value), []).append(item)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Parameters of `merge`."""

    sources: Annotated[list[str], MinLen(1)]
    """Aliases of the results to merge."""
    strategy: Literal["concat", "interleave", "unique"] = "concat"
    """One list after the other, one item of each in turn, or `concat` without duplicates."""
    unique_field: str = "id"
    """The field whose values differ with `unique`. The first item stays."""


@step("merge", "aggregation", reads=("list", "groups"))
def merge(params: Merge, call: StepCall) -> Items:
    """Return the items of several results as one list."""
    lists = [flatten(read_source(call, alias)) for alias in params.sources]
    if params.strategy == "interleave":
        turns = chain.from_iterable(zip_longest(*lists))
        return [item for item in turns if item is not None]
    items = chain.from_iterable(lists)
    return first_of_each(items, params.unique_field) if params.strategy == "unique" else [*items]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceLatest:
    """Parameters of `reduce_latest`."""

    entity_field: str = "id"
    """The field that names the entity, such as `payload.service`."""
    sort_field: str = "timestamp"
    """The field by which the latest item is found."""


@step("reduce_latest", "aggregation", reads=("list", "groups"))
def reduce_latest(params: ReduceLatest, call: StepCall) -> Items:
    """Return the latest item of each entity, the newest first."""
    entity = params.entity_field
    items = [item for item in call.items if get_field(item, entity) is not MISSING]
    if lacking := len(call.items) - len(items):
        call.warn("no_entity", f"items without {entity}, left out: {lacking}")
    return first_of_each(sort_descending(items, params.sort_field), entity)
