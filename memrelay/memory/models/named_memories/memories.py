"""Named memories, and the views of their entries (seed 004, "Key Concepts")."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zlib import crc32

import orjson
from pydantic import Field, StringConstraints

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, next_change_ms
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.table import Confirmed, Memory, MemoryTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import kept_data, load_json
from memrelay.memory.records.ids import make_id, uid_of_store
from memrelay.memory.records.optimistic_locking import refuse_other_version
from memrelay.memory.records.paging import Cursor, Limit, parse_cursor, take_page
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import (
    MAX_NAME_CHARACTERS,
    MOST_TAGS,
    Versions,
    format_optional,
    version_of,
)

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
EntryContent = Annotated[
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
    valid_from: Moment | None
    """Since when the content is true; null for ever."""
    valid_to: Moment | None
    """Until when the content is true; null for open."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEntry(EntryView):
    """An entry and the outcome of a write."""

    action: Action
    """created: a new entry; updated: an existing one has the text now; skipped: it had it already.
    """
    score: float
    """Similarity to the most similar entry, from 0 to 1."""
    why: str
    """How the score was computed."""
    replaced: tuple[str, ...] = ()
    """The texts that the new one replaced. The history keeps them."""
    hint: str = ""
    """How to keep the replaced texts too; "" if none was replaced."""


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
        make_memory_version(memory),
    )


def make_memory_version(memory: Memory) -> str:
    """Return the version of a named memory, derived from all of its fields."""
    return f"{memory.updated_at:x}-{crc32(orjson.dumps(list(memory))):x}"


def entry_fields(
    record: Record, extras: RecordExtras, memory_id: str, confirmed: Confirmed
) -> dict[str, Any]:
    """Return the fields of `EntryView`. `memory_id` is the store's."""
    return {
        "id": make_id("me", memory_id, record.guid),
        "memory_id": record.scope,
        "content": record.content,
        "source": record.source,
        "tags": tuple(load_json(record.tags, record.guid)),
        "metadata": kept_data(record, extras),
        "confirmations": confirmed.times,
        "last_confirmed_at": format_optional(confirmed.last),
        "valid_from": format_optional(extras.valid_from),
        "valid_to": format_optional(extras.valid_to),
        "created_at": format_time(record.created_at),
        "updated_at": format_time(record.updated_at),
        "version": version_of(record, extras),
    }


@dataclass(frozen=True, slots=True)
class CreateMemory:
    """A named memory to create."""

    name: MemoryName
    """The name; it need not be unique."""
    description: Description | None = None
    """The purpose of the memory."""
    tags: TagList | None = None
    """Tags for filters."""


@operation("memories.create", access="write", mutates=True, store="memories")
def create_memory(tx: Transaction, new: CreateMemory, context: Context) -> MemoryView:
    """Create a named memory, which stores deduplicated entries."""
    return memory_view(add_memory(tx, new, context.new_guid(), context.now_ms), tx.memory_id)


def add_memory(tx: Transaction, new: CreateMemory, guid: str, now_ms: int) -> Memory:
    """Store a new memory and return it."""
    memory = Memory(
        make_id("mem", tx.memory_id, guid),
        new.name,
        new.description,
        tags_json(new.tags),
        now_ms,
        now_ms,
    )
    tx.table(MemoryTable).add(memory)
    return memory


def tags_json(tags: tuple[str, ...] | None) -> str | None:
    """Return the distinct tags in their stored form."""
    return None if tags is None else orjson.dumps(list(dict.fromkeys(tags))).decode()


@dataclass(frozen=True, slots=True)
class GetMemory:
    """The memory to read."""

    id: Ident
    """The id of the memory."""


@operation("memories.get", access="read", mutates=False, store="memories", takes_as_of=True)
def get_memory(tx: Transaction, request: GetMemory, context: Context) -> MemoryView:
    """Return one named memory.

    Raises RecordNotFound: when it does not exist.
    """
    return memory_view(fetch_memory(tx, request.id), tx.memory_id)


def fetch_memory(tx: Transaction, ident: str) -> Memory:
    """Return the stored memory. Raises RecordNotFound."""
    memory = tx.table(MemoryTable).find(ident)
    if memory is None:
        raise RecordNotFound(
            f"Memory not found: no memory has the id {ident[:128]!r}; memories.list lists them"
        )
    return memory


def find_memory(tx: Transaction, name_or_id: str) -> Memory | None:
    """Return the memory with that id, else the oldest with that name, None if there is none."""
    return tx.table(MemoryTable).find(name_or_id) or tx.table(MemoryTable).named(name_or_id)


@dataclass(frozen=True, slots=True)
class ListMemories:
    """The memories to list, and the page."""

    tags: Globs = ()
    """Only memories with a tag that matches one of these; `*` is any text, `?` one character."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of memories. A page of long descriptions and tags may have fewer."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of named memories."""

    items: tuple[MemoryView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of memories on all pages."""


@operation("memories.list", access="read", mutates=False, store="memories", takes_as_of=True)
def list_memories(tx: Transaction, request: ListMemories, context: Context) -> MemoryPage:
    """List named memories, optionally by tags, in pages.

    Raises Refused: when the cursor is invalid.
    """
    table, beyond = tx.table(MemoryTable), parse_cursor(request.cursor)
    rows = list(table.page(request.tags, request.order, beyond, request.limit + 1))
    views = (memory_view(memory, tx.memory_id) for _, memory in rows)
    items, has_more = take_page(views, request.limit, context.result_bytes)
    cursor = str(rows[len(items) - 1][0]) if has_more else None
    return MemoryPage(tuple(items), cursor, table.count(request.tags))


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """The changes of a memory. Omitted fields keep their values."""

    id: Ident
    """The id of the memory."""
    name: MemoryName | None = None
    """The new name."""
    description: Description | None = None
    """The new description."""
    tags: TagList | None = None
    """The new tags; they replace all present tags."""
    clear: tuple[Literal["description", "tags"], ...] = ()
    """The fields to set to null."""
    if_version: Versions = ()
    """Change only if the memory has one of these versions."""


@operation("memories.update", access="write", mutates=True, store="memories")
def update_memory(tx: Transaction, change: UpdateMemory, context: Context) -> MemoryView:
    """Change the given fields of a memory.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
    """
    before = fetch_memory(tx, change.id)
    check_memory_version(before, change.if_version)
    values = {
        "name": change.name,
        "description": change.description,
        "tags": tags_json(change.tags),
    }
    changes: dict[str, Any] = {
        name: value for name, value in values.items() if value is not None or name in change.clear
    }
    after = before._replace(**changes)
    if after != before:
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.table(MemoryTable).replace(after)
    return memory_view(after, tx.memory_id)


def check_memory_version(memory: Memory, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the memory has none of the allowed versions; () allows all."""
    if allowed:
        refuse_other_version(f"memory {memory.id}", make_memory_version(memory), allowed)


@dataclass(frozen=True, slots=True)
class DeleteMemory:
    """The memory to delete."""

    id: Ident
    """The id of the memory."""
    if_version: Versions = ()
    """Delete only if the memory has one of these versions."""


@operation("memories.delete", access="delete", mutates=True, store="memories")
def delete_memory(tx: Transaction, request: DeleteMemory, context: Context) -> None:
    """Delete a named memory with all its entries.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
    """
    check_memory_version(fetch_memory(tx, request.id), request.if_version)
    tx.records.delete_all({"scope": request.id, "kind": KIND})
    tx.table(MemoryTable).remove(request.id)
