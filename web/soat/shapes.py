"""What SOAT's routes take and answer, for the documents (seed 004, "Key Concepts"). The operations
check what is taken."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from memrelay.memory.operations.entries_write import Mode
from memrelay.memory.records.memory_view import Source
from memrelay.web.openapi.shapes import whole


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
    """A part of a memory's entries: `limit` at most, after the first `offset`; `total` is how many
    there are."""

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


@whole
class NewSoatMemory(TypedDict):
    """A memory to be."""

    project_id: NotRequired[str | None]  # needed, but with a key for one project alone
    name: str
    description: NotRequired[str | None]
    tags: NotRequired[list[str] | None]


@whole
class SoatMemoryChange(TypedDict):
    """What is to be changed of a memory; null clears."""

    name: NotRequired[str]
    description: NotRequired[str | None]
    tags: NotRequired[list[str] | None]


@whole
class NewSoatEntry(TypedDict):
    """An entry to be."""

    content: str
    source: NotRequired[Source | None]
    source_type: NotRequired[Source]  # the same, by its later name
    tags: NotRequired[list[str] | None]
    duplicate_threshold: NotRequired[float | None]
    update_threshold: NotRequired[float | None]
    mode: NotRequired[Mode | None]


@whole
class SoatEntryChange(TypedDict):
    """What is to be changed of an entry; null clears."""

    content: NotRequired[str]
    tags: NotRequired[list[str] | None]


@whole
class NewLaterEntry(TypedDict):
    """An entry to be."""

    memory_id: str
    content: str
    source_type: NotRequired[Source | None]
    source: NotRequired[Source | None]  # the same, by its earlier name
    tags: NotRequired[list[str] | None]
    metadata: NotRequired[dict[str, Any] | None]
    duplicate_threshold: NotRequired[float | None]
    mode: NotRequired[Mode | None]


@whole
class LaterEntryChange(SoatEntryChange):
    """What is to be changed of an entry; null clears."""

    metadata: NotRequired[dict[str, Any] | None]


@whole
class SoatQuestion(TypedDict):
    """What is looked for, and where; one of the query and the lists at least. There are no
    documents here."""

    project_id: NotRequired[str | None]
    query: NotRequired[str | None]
    min_score: NotRequired[float | None]
    limit: NotRequired[int | None]
    memory_ids: NotRequired[list[str] | None]
    memory_tags: NotRequired[list[str] | None]
    document_paths: NotRequired[list[str] | None]
    document_ids: NotRequired[list[str] | None]
