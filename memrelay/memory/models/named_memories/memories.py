"""memories.create: creates a named memory."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.errors import RecordNotFound, VersionConflict
from memrelay.memory.models.named_memories.table import Memory, MemoryTable
from memrelay.memory.models.named_memories.views import (
    KIND,
    Description,
    Globs,
    Ident,
    MemoryName,
    MemoryView,
    TagList,
    memory_view,
    version_of_memory,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.ids import make_id
from memrelay.memory.records.reading import Limit, parse_cursor, take_page
from memrelay.memory.records.view import Versions


@dataclass(frozen=True, slots=True)
class CreateMemory:
    """A named memory to create."""

    name: MemoryName
    """The name; it need not be unique."""
    description: Description | None = None
    """The purpose of the memory."""
    tags: TagList | None = None
    """Tags for filters."""


@operation("memories.create", access="write", mutates=True, home="memories")
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


@operation("memories.get", access="read", mutates=False, home="memories")
def get_memory(tx: Transaction, wanted: GetMemory, context: Context) -> MemoryView:
    """Return one named memory.

    Raises RecordNotFound: when it does not exist.
    """
    return memory_view(fetch_memory(tx, wanted.id), tx.memory_id)


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
    cursor: Annotated[str, Field(max_length=19)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of named memories."""

    items: tuple[MemoryView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of memories on all pages."""


@operation("memories.list", access="read", mutates=False, home="memories")
def list_memories(tx: Transaction, wanted: ListMemories, context: Context) -> MemoryPage:
    """List named memories, optionally by tags, in pages.

    Raises Refused: when the cursor is invalid.
    """
    found = list(
        tx.table(MemoryTable).page(
            wanted.tags, wanted.order, parse_cursor(wanted.cursor), wanted.limit + 1
        )
    )
    views = (memory_view(memory, tx.memory_id) for _, memory in found)
    items, more = take_page(views, wanted.limit, context.result_bytes)
    return MemoryPage(
        tuple(items),
        str(found[len(items) - 1][0]) if more else None,
        tx.table(MemoryTable).count(wanted.tags),
    )


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


@operation("memories.update", access="write", mutates=True, home="memories")
def update_memory(tx: Transaction, change: UpdateMemory, context: Context) -> MemoryView:
    """Change the given fields of a memory.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
    """
    before = fetch_memory(tx, change.id)
    check_memory_version(before, change.if_version)
    given: dict[str, Any] = {
        "name": change.name,
        "description": change.description,
        "tags": tags_json(change.tags),
    }
    changed = {
        name: value for name, value in given.items() if value is not None or name in change.clear
    }
    after = before._replace(**changed)
    if after != before:
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.table(MemoryTable).replace(after)
    return memory_view(after, tx.memory_id)


def check_memory_version(memory: Memory, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the memory has none of the allowed versions; () allows all."""
    if allowed and (version := version_of_memory(memory)) not in allowed:
        raise VersionConflict(
            f"memory {memory.id} has version {version}, not the expected one; "
            "read it again and retry with its version"
        )


@dataclass(frozen=True, slots=True)
class DeleteMemory:
    """The memory to delete."""

    id: Ident
    """The id of the memory."""
    if_version: Versions = ()
    """Delete only if the memory has one of these versions."""


@operation("memories.delete", access="delete", mutates=True, home="memories")
def delete_memory(tx: Transaction, target: DeleteMemory, context: Context) -> None:
    """Delete a named memory with all its entries.

    Raises RecordNotFound: when the memory does not exist.
    Raises VersionConflict: when the memory has another version.
    """
    check_memory_version(fetch_memory(tx, target.id), target.if_version)
    tx.records.delete_all({"scope": target.id, "kind": KIND})
    tx.table(MemoryTable).remove(target.id)
