"""entries.create: adds an entry to a named memory, with deduplication (docs/memories.md)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.dedup.similarity import DUPLICATE, RELATED
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_write import Mode, NewEntry, WriteResult, write_entry
from memrelay.memory.operations.memories_create import CreateMemory, add_memory
from memrelay.memory.operations.memories_get import fetch_memory, find_memory
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.records.data import Data
from memrelay.memory.records.entry_vector import find_cached_vector
from memrelay.memory.records.ids import uid_of
from memrelay.memory.records.memory_view import (
    Fact,
    MaybeIdent,
    MaybeMemory,
    Source,
    TagList,
    WrittenEntry,
    entry_fields,
)
from memrelay.memory.sqlite.store import Transaction

Threshold = Annotated[float, Field(ge=0, le=2)]  # no score is above 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEntry:
    """An entry to write, and the rules of its deduplication."""

    memory_id: MaybeIdent = ""
    """The memory to write to, by its id; "" if `memory` names it."""
    content: Fact
    """The fact or observation."""
    source: Source = "manual"
    """The origin of the entry."""
    tags: TagList = ()
    """Tags for filters."""
    metadata: Data | None = None
    """More data: a JSON object of at most 64 KiB. An updated entry receives its new keys."""
    duplicate_threshold: Threshold = DUPLICATE
    """The similarity from which on the entry is skipped as a duplicate. Above 1: never."""
    update_threshold: Threshold = RELATED
    """The similarity from which on the text is added to an existing entry. Above 1: never."""
    mode: Mode | None = None
    """How to treat similar entries.

    By default the thresholds decide. `skip` never updates an entry. `merge` also updates an entry
    that is a duplicate. `supersede` replaces the text of an overlapping entry. `create` compares
    nothing.
    """
    memory: MaybeMemory = ""
    """The name or id of the memory to write to. An unknown name creates a memory.

    Use it instead of `memory_id`. If several memories have the name, the oldest is used.
    """


@operation("entries.create", access="write", mutates=True, home="memories", embeds="content")
def create_entry(tx: Transaction, new: CreateEntry, context: Context) -> WrittenEntry:
    """Write an entry: create it, add it to a similar entry, or skip it as a duplicate.

    Raises Refused: when the input names no memory, or two.
    Raises RecordNotFound: when no memory has the id.
    Raises VectorPending: when the vector of a merged text is not computed yet.
    """
    entry = NewEntry(
        context.new_guid(),
        _find_or_create_memory(tx, new, context),
        new.content,
        context.now_ms,
        new.source,
        tuple(dict.fromkeys(new.tags)),
        new.duplicate_threshold,
        new.update_threshold,
        new.mode,
        new.metadata or {},
        context.may_wait,
    )
    return view_written_entry(tx, write_entry(tx, entry, find_cached_vector(tx, new.content)))


def _find_or_create_memory(tx: Transaction, new: CreateEntry, context: Context) -> str:
    """Return the id of the memory that the input names. Raises Refused and RecordNotFound."""
    if bool(new.memory_id) == bool(new.memory):
        raise Refused("name one memory: set either `memory_id`, or `memory` to its name or id")
    if new.memory_id:
        return fetch_memory(tx, new.memory_id).id
    found = find_memory(tx, new.memory)
    if found is not None:
        return found.id
    if uid_of("mem", new.memory):
        return fetch_memory(tx, new.memory).id
    return add_memory(tx, CreateMemory(new.memory), context.new_guid(), context.now_ms).id


def view_written_entry(tx: Transaction, written: WriteResult) -> WrittenEntry:
    """Return the written entry with the action and the score of the comparison."""
    record, further = fetch(tx, written.guid)
    fields = entry_fields(record, further, tx.memory_id, tx.entries.confirmed(written.guid))
    return WrittenEntry(
        **fields,
        action=written.action,
        score=round(written.similarity.score, 4),
        why=written.similarity.why,
    )
