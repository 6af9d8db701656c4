"""The step `rank`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from memrelay.memory.models.recipes.execution.items import sort_descending
from memrelay.memory.models.recipes.step import Items, StepCall, step

FIELDS = {"score_desc": "score", "recency": "timestamp", "relevance": "relevance"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Parameters of `rank`."""

    strategy: Literal["score_desc", "recency", "relevance"] = "score_desc"
    """Sort by `score`, `timestamp` or `relevance`."""
    top_k: Annotated[int, Ge(1)] | None = None
    """Number of items to keep. The default is all."""


@step("rank", "ranking", reads=("list", "groups"))
def rank(params: Rank, call: StepCall) -> Items:
    """Return the items in descending order of a field; those without it come last."""
    return sort_descending(call.items, FIELDS[params.strategy])[: params.top_k]
