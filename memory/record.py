"""The record: everything that is remembered is one (seed 000, "Record Schema")."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A record as it is answered; times are Unix ms, `tags` a JSON array as text, `score` 0 unless
    it was searched for.

    From `expires_at` on it is gone; None for never.
    """

    guid: str
    scope: str
    kind: str
    content: str
    source: str
    tags: str
    created_at: int
    updated_at: int
    expires_at: int | None = None
    score: float = 0.0


# A record of as many values as it has fields. What NamedTuple makes, `_make`, is Python and takes
# three times as long.
record_of: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Further(NamedTuple):
    """What few records have, and only operations tell: it is read by itself, so that nobody else
    pays for it."""

    key: str | None = None
    owner: str | None = None
    data: str | None = None  # a JSON object as text; None for an empty one
    in_context: int = 0  # or 1
    thread: str | None = None
    seq: int | None = None


PLAIN = Further()
DEFAULT_KIND = "observation"
