"""Steps that leave out, group, sort and format items."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import chain, islice, zip_longest
from typing import Annotated, Any, Literal

from annotated_types import Ge, MaxLen, MinLen

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.recipes.execution.conditions import (
    COMPARISONS,
    MISSING,
    get_field,
    is_number,
)
from memrelay.memory.models.recipes.execution.items import (
    MAX_ITEMS,
    Format,
    compact,
    first_of_each,
    flatten,
    format_items,
    read_source,
    sort_descending,
)
from memrelay.memory.models.recipes.step import Item, Items, StepCall, StepFailed, step

Operator = Literal[
    "eq", "neq", "gt", "lt", "gte", "lte", "contains", "startsWith", "endsWith", "in", "exists"
]
HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "startsWith": COMPARISONS["starts_with"],
    "endsWith": COMPARISONS["ends_with"],
    "exists": lambda value, exists: (value is not MISSING) is exists,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    field: str
    """The field to compare, such as `payload.ms`."""
    operator: Operator
    """The comparison. Types are never converted; `neq` is the opposite of `eq`."""
    value: Any = dataclass_field(default_factory=lambda: MISSING)
    """The value to compare with. `in` needs a list; `exists` takes `true` (default) or `false`."""


@step("filter", "filter", reads=("list", "groups"))
def filter_items(params: Filter, call: StepCall) -> Items:
    """Return the items whose field compares with the value."""
    value = _check_value(params.operator, params.value)
    holds, path = HOLDS[params.operator], params.field
    return [item for item in call.items if holds(get_field(item, path), value)]


def _check_value(operator: str, value: Any) -> Any:
    if operator == "exists":
        value = True if value is MISSING else value
        if not isinstance(value, bool):
            raise StepFailed("bad_param", "the value of exists must be true or false")
    elif value is MISSING:
        raise StepFailed("bad_param", f"the operator {operator} needs a value")
    elif operator == "in" and not isinstance(value, list):
        raise StepFailed("bad_param", "the value of in must be a list")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    field: str = "id"
    """The field whose values must differ. Items without it stay."""


@step("deduplicate", "filter", reads=("list", "groups"))
def deduplicate(params: Deduplicate, call: StepCall) -> Items:
    """Return the first item for each value of a field."""
    return first_of_each(call.items, params.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBy:
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


# As many as a recipe has steps.
MAX_SOURCES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    sources: Annotated[list[str], MinLen(1), MaxLen(MAX_SOURCES)]
    """Aliases of the results to merge."""
    strategy: Literal["concat", "interleave", "unique"] = "concat"
    """One list after the other, one item of each in turn, or `concat` without duplicates."""
    unique_field: str = "id"
    """The field whose values differ with `unique`. The first item stays."""


@step("merge", "aggregation", reads=("list", "groups"))
def merge(params: Merge, call: StepCall) -> Items:
    """Return the items of several results as one list."""
    is_unique = params.strategy == "unique"
    aliases = dict.fromkeys(params.sources) if is_unique else params.sources
    lists = [flatten(read_source(call, alias)) for alias in aliases]
    items: Iterable[Item]
    if params.strategy == "interleave":
        turns = chain.from_iterable(zip_longest(*lists))
        items = (item for item in turns if item is not None)
    else:
        items = chain.from_iterable(lists)
    # A run ends at the first item too many.
    most = MAX_ITEMS + 1
    return first_of_each(items, params.unique_field, most) if is_unique else [*islice(items, most)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceLatest:
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


FIELDS = {"score_desc": "score", "recency": "timestamp", "relevance": "relevance"}
MAX_WEIGHTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    strategy: Literal["score_desc", "recency", "relevance"] = "score_desc"
    """Sort by `score`, `timestamp` or `relevance`."""
    top_k: Annotated[int, Ge(1)] | None = None
    """Number of items to keep. The default is all."""


@step("rank", "ranking", reads=("list", "groups"))
def rank(params: Rank, call: StepCall) -> Items:
    """Return the items in descending order of a field; those without it come last."""
    return sort_descending(call.items, FIELDS[params.strategy])[: params.top_k]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    weights: Annotated[dict[str, float], MinLen(1), MaxLen(MAX_WEIGHTS)]
    """The weight of each field, such as `{"payload.ms": 0.001}`. Other values count as 0."""
    top_k: Annotated[int, Ge(1)] | None = None
    """Number of items to keep. The default is all."""


@step("score", "ranking", reads=("list", "groups"))
def score(params: Score, call: StepCall) -> Items:
    """Set the score of each item to its weighted sum, and sort in descending order."""
    weights = tuple(params.weights.items())
    scored = []
    for item in call.items:
        total = 0.0
        for field, weight in weights:
            value = get_field(item, field)
            if is_number(value):
                total += weight * value
        scored.append({**item, "score": total})
    return sort_descending(scored, "score")[: params.top_k]


DEFAULT_FORMAT = "bullet_list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotate:
    label: str | None = None
    """A label for the provenance."""


@step("annotate", "transform", reads=("list", "groups"))
def annotate(params: Annotate, call: StepCall) -> Items:
    """Add `provenance` to each item: recipe, source step, and time of the run."""
    provenance = {
        "memory": call.run["memoryId"],
        "memoryLabel": call.run["memory"].get("label", ""),
        "step": call.source_type,
        "alias": call.source,
        "retrievedAt": format_time(call.context.now_ms),
    }
    if params.label:
        provenance["label"] = params.label
    return [{**item, "provenance": provenance} for item in call.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatItems:
    format: Format | None = None
    """The format. The default is the `format` of the recipe's contribution."""


@step("format", "transform", reads=("list", "groups"), returns=("text",))
def format_step(params: FormatItems, call: StepCall) -> str:
    """Return the items as one text."""
    contribution = call.run["memory"].get("contribution") or {}
    style = params.format or contribution.get("format") or DEFAULT_FORMAT
    return format_items(call.items, style)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize:
    max_items: Annotated[int, Ge(1)] = 10
    """Number of items to keep."""


@step("summarize", "transform", reads=("list", "groups"))
def summarize(params: Summarize, call: StepCall) -> Items:
    """Return the first items."""
    return call.items[: params.max_items]
