"""Steps that sort items."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, MaxLen, MinLen

from memrelay.memory.models.recipes.execution.items import sort_descending
from memrelay.memory.models.recipes.execution.values import get_field, is_number
from memrelay.memory.models.recipes.step import Items, StepCall, step

FIELDS = {"score_desc": "score", "recency": "timestamp", "relevance": "relevance"}
MAX_WEIGHTS = 32


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Parameters of `score`."""

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
