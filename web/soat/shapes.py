"""JSON shapes of SOAT's routes, for the OpenAPI document. The operations validate the input."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.operations.entries_write import Mode
from memrelay.memory.records.memory_view import Source
from memrelay.web.openapi.shapes import exact


@exact
class SoatMemory(TypedDict):
    """A named memory."""

    id: str
    project_id: str
    name: str
    description: str | None
    tags: list[str] | None
    created_at: str
    updated_at: str


@exact
class SoatEntry(TypedDict):
    """An entry, with Memrelay's additional fields."""

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


@exact
class SoatWritten(SoatEntry):
    """An entry with the result of the write."""

    action: Literal["created", "updated", "skipped"]
    score: float
    why: str


@exact
class LaterEntry(TypedDict):
    """An entry in the shape of later SOAT versions. Memrelay lacks the features of null fields."""

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


@exact
class LaterWritten(LaterEntry):
    """An entry with the result of the write."""

    action: Literal["created", "updated", "skipped"]
    score: float
    why: str


@exact
class LaterEntries(TypedDict):
    """Up to `limit` entries of a memory after the first `offset`. `total` counts all of them."""

    data: list[LaterEntry]
    total: int
    limit: int
    offset: int


@exact
class SoatResult(TypedDict):
    """An entry that was found. It has scores only if there was a query."""

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


@exact
class SoatKnowledge(TypedDict):
    """The results of a search."""

    results: list[SoatResult]
    degraded: bool
    reason: NotRequired[str]


@exact
class NewSoatMemory(TypedDict):
    """A new memory."""

    # Optional for a key that is limited to one project.
    project_id: NotRequired[str | None]
    name: str
    description: NotRequired[str | None]
    tags: NotRequired[list[str] | None]


@exact
class SoatMemoryChange(TypedDict):
    """Changes of a memory. null clears a field."""

    name: NotRequired[str]
    description: NotRequired[str | None]
    tags: NotRequired[list[str] | None]


@exact
class NewSoatEntry(TypedDict):
    """A new entry."""

    content: str
    source: NotRequired[Source | None]
    # The name of `source` in later versions.
    source_type: NotRequired[Source]
    tags: NotRequired[list[str] | None]
    duplicate_threshold: NotRequired[float | None]
    update_threshold: NotRequired[float | None]
    mode: NotRequired[Mode | None]


@exact
class SoatEntryChange(TypedDict):
    """Changes of an entry. null clears a field."""

    content: NotRequired[str]
    tags: NotRequired[list[str] | None]


@exact
class NewLaterEntry(TypedDict):
    """A new entry."""

    memory_id: str
    content: str
    source_type: NotRequired[Source | None]
    # The name of `source_type` in earlier versions.
    source: NotRequired[Source | None]
    tags: NotRequired[list[str] | None]
    metadata: NotRequired[dict[str, Any] | None]
    duplicate_threshold: NotRequired[float | None]
    mode: NotRequired[Mode | None]


@exact
class LaterEntryChange(SoatEntryChange):
    """Changes of an entry. null clears a field."""

    metadata: NotRequired[dict[str, Any] | None]


@exact
class SoatQuestion(TypedDict):
    """A search with at least a query or a list. Memrelay stores no documents."""

    project_id: NotRequired[str | None]
    query: NotRequired[str | None]
    min_score: NotRequired[float | None]
    limit: NotRequired[int | None]
    memory_ids: NotRequired[list[str] | None]
    memory_tags: NotRequired[list[str] | None]
    document_paths: NotRequired[list[str] | None]
    document_ids: NotRequired[list[str] | None]
