"""The record: everything that is remembered is one (seed 000, "Record Schema")."""
from typing import NamedTuple


class Record(NamedTuple):
    """A record as it is answered; times are Unix ms, `tags` a JSON array as text, `score` 0 unless it was searched for.

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


DEFAULT_KIND = "observation"
