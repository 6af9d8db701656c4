"""Boosts: what a search may count beside relevance, how new a record is and how important. Off
unless they are asked for."""

from typing import Annotated

from msgspec import Struct
from pydantic import Field

HALF_LIFE_DAYS = 30.0
Weight = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_525, allow_inf_nan=False)]  # a century
WRONG_MODE = "recency and importance change the order of ranked searches: set `mode` to hybrid or semantic with them"


class Boosts(Struct, frozen=True):
    """Weights of 0 to 1: with 0.3, a score loses at most 30 % of itself, so it stays from 0 to 1
    and nothing is found less.

    A record keeps 1 - recency + recency * 2^(-age / half-life) of its score, and 1 - importance +
    importance * its own, which
    is the number at `data.importance`, from 0 to 1; one that has none counts as 0.5.
    """

    recency: float = 0.0
    recency_days: float = HALF_LIFE_DAYS
    importance: float = 0.0
    now_ms: int = 0  # what ages are counted to

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return self.recency > 0 or self.importance > 0


NO_BOOSTS = Boosts()
