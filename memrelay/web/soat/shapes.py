"""JSON shapes of SOAT's routes, for the OpenAPI document. The operations validate the input."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.models.named_memories.entries import Mode, Threshold
from memrelay.memory.models.named_memories.knowledge import MOST
from memrelay.memory.models.named_memories.views import (
    Description,
    Fact,
    Ident,
    MemoryName,
    Source,
    Tag,
)
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
    name: MemoryName
    description: NotRequired[Description | None]
    tags: NotRequired[list[Tag] | None]


@exact
class SoatMemoryChange(TypedDict):
    """Changes of a memory. null clears a field."""

    name: NotRequired[MemoryName]
    description: NotRequired[Description | None]
    tags: NotRequired[list[Tag] | None]


@exact
class NewSoatEntry(TypedDict):
    """A new entry."""

    content: Fact
    source: NotRequired[Source | None]
    # The name of `source` in later versions.
    source_type: NotRequired[Source | None]
    tags: NotRequired[list[Tag] | None]
    duplicate_threshold: NotRequired[Threshold | None]
    update_threshold: NotRequired[Threshold | None]
    mode: NotRequired[Mode | None]


@exact
class SoatEntryChange(TypedDict):
    """Changes of an entry. null clears a field."""

    content: NotRequired[Fact]
    tags: NotRequired[list[Tag] | None]


@exact
class NewLaterEntry(TypedDict):
    """A new entry."""

    memory_id: Annotated[str, Field(min_length=1)]
    content: Fact
    source_type: NotRequired[Source | None]
    # The name of `source_type` in earlier versions.
    source: NotRequired[Source | None]
    tags: NotRequired[list[Tag] | None]
    metadata: NotRequired[dict[str, Any] | None]
    duplicate_threshold: NotRequired[Threshold | None]
    mode: NotRequired[Mode | None]


@exact
class LaterEntryChange(SoatEntryChange):
    """Changes of an entry. null clears a field."""

    metadata: NotRequired[dict[str, Any] | None]


# A search needs at least one of these.
_CRITERIA: list[JsonValue] = [
    {"required": ["query"], "properties": {"query": {"type": "string", "pattern": r"\S"}}}
]
for _name in ("memory_ids", "memory_tags", "document_paths", "document_ids"):
    _filled: JsonValue = {"type": ["string", "array"], "minLength": 1, "minItems": 1}
    _CRITERIA.append({"required": [_name], "properties": {_name: _filled}})


@with_config(ConfigDict(extra="forbid", json_schema_extra={"anyOf": _CRITERIA}))
class SoatQuestion(TypedDict):
    """A search with at least a query or a list. Memrelay stores no documents."""

    project_id: NotRequired[str | None]
    query: NotRequired[str | None]
    min_score: NotRequired[float | None]
    limit: NotRequired[Annotated[int, Field(ge=0, le=MOST)] | None]
    memory_ids: NotRequired[list[Ident] | Ident | None]
    memory_tags: NotRequired[list[Tag] | Tag | None]
    document_paths: NotRequired[list[str] | str | None]
    document_ids: NotRequired[list[str] | str | None]
