"""The step `merge`."""

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Annotated, Literal

from annotated_types import MinLen

from memrelay.memory.models.recipes.execution.items import first_of_each, flatten, read_source
from memrelay.memory.models.recipes.step import Items, StepCall, step


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
