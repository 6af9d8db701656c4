"""API views of named memories and their entries, and the types of their input (seed 004, "Key
Concepts").
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zlib import crc32

import orjson
from pydantic import Field, StringConstraints

from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.table import Confirmed, Memory
from memrelay.memory.records.data import kept_data, load_json
from memrelay.memory.records.ids import make_id, uid_of_store
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, MOST_TAGS, version_of

# The kind of the records that are entries.
KIND = "entry"
Ident = Annotated[str, Field(min_length=1, max_length=128)]
# Optional: "" for none.
MaybeIdent = Annotated[str, Field(max_length=128)]
MemoryName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS, pattern=r"\S")
]
# The name or id of a memory. "" for none.
MaybeMemory = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS, pattern=r"^$|\S")]
Description = Annotated[str, Field(max_length=4096)]
Tag = MemoryName
TagList = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]
Globs = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]
Fact = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_ENTRY_CHARACTERS, pattern=r"\S")
]
# Later versions of SOAT than seed 004 define "orchestration".
Source = Literal["manual", "agent", "extraction", "orchestration"]
Action = Literal["created", "updated", "skipped"]


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A named memory."""

    id: str
    project_id: str
    """The uid of the pipeline."""
    name: str
    description: str | None
    tags: tuple[str, ...] | None
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """An entry of a named memory."""

    id: str
    memory_id: str
    content: str
    source: str
    """manual, agent, extraction or orchestration."""
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    """Structured data; the `data` of the record."""
    confirmations: int
    """How often the same content was written again."""
    last_confirmed_at: Moment | None
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEntry(EntryView):
    """An entry and the outcome of a write."""

    action: Action
    """created: a new entry; updated: merged into an existing one; skipped: it existed already."""
    score: float
    """Similarity to the most similar entry, from 0 to 1."""
    why: str
    """How the score was computed."""


def memory_view(memory: Memory, memory_id: str) -> MemoryView:
    """Return the API view of a named memory. `memory_id` is its store's."""
    return MemoryView(
        memory.id,
        uid_of_store(memory_id),
        memory.name,
        memory.description,
        None if memory.tags is None else tuple(orjson.loads(memory.tags)),
        format_time(memory.created_at),
        format_time(memory.updated_at),
        version_of_memory(memory),
    )


def version_of_memory(memory: Memory) -> str:
    """Return the version of a named memory, derived from all of its fields."""
    return f"{memory.updated_at:x}-{crc32(orjson.dumps(list(memory))):x}"


def entry_fields(
    record: Record, further: Further, memory_id: str, confirmed: Confirmed
) -> dict[str, Any]:
    """Return the fields of `EntryView`. `memory_id` is the store's."""
    return {
        "id": make_id("me", memory_id, record.guid),
        "memory_id": record.scope,
        "content": record.content,
        "source": record.source,
        "tags": tuple(load_json(record.tags, record.guid)),
        "metadata": kept_data(record, further),
        "confirmations": confirmed.times,
        "last_confirmed_at": None if confirmed.last is None else format_time(confirmed.last),
        "created_at": format_time(record.created_at),
        "updated_at": format_time(record.updated_at),
        "version": version_of(record, further),
    }
