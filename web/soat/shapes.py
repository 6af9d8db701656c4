"""What SOAT's routes answer, for the documents (seed 004, "Key Concepts")."""
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from web.shapes import whole


@whole
class SoatMemory(TypedDict):
    """A named memory."""

    id: str
    project_id: str
    name: str
    description: str | None
    tags: list[str] | None
    created_at: str
    updated_at: str


@whole
class SoatEntry(TypedDict):
    """An entry, with what only Memrelay tells."""

    id: str
    memory_id: str
    content: str
    source: str
    source_type: str
    tags: list[str]
    metadata: dict[str, Any]
    confirmations: int
    last_confirmed_at: str | None
    created_at: str
    updated_at: str


@whole
class SoatWritten(SoatEntry):
    """What a write made of an entry."""

    action: Literal["created", "updated", "skipped"]
    score: float
    why: str


@whole
class LaterEntry(TypedDict):
    """An entry as SOAT's later versions have it; what is always null is what nothing here makes."""

    id: str
    memory_id: str
    content: str
    source: str
    source_type: str
    tags: list[str] | None
    metadata: dict[str, Any] | None
    source_generation_id: None
    source_conversation_id: None
    invalidated_at: None
    superseded_by_entry_id: None
    confirmations: int
    last_confirmed_at: str | None
    created_at: str
    updated_at: str


@whole
class LaterWritten(LaterEntry):
    """What a write made of an entry."""

    action: Literal["created", "updated", "skipped"]
    score: float
    why: str


@whole
class LaterEntries(TypedDict):
    """A part of a memory's entries: `limit` at most, after the first `offset`; `total` is how many there are."""

    data: list[LaterEntry]
    total: int
    limit: int
    offset: int


@whole
class SoatResult(TypedDict):
    """An entry that was found; scores are there where something was asked."""

    source_type: Literal["memory"]
    entry_id: str
    memory_id: str
    memory_name: str
    content: str
    source: str
    tags: list[str]
    score: NotRequired[float]
    similarity_score: NotRequired[float]
    why: NotRequired[str]
    created_at: str
    updated_at: str


@whole
class SoatKnowledge(TypedDict):
    """What was found."""

    results: list[SoatResult]
    degraded: bool
    reason: NotRequired[str]
