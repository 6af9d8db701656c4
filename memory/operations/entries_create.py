"""entries.create: writes an entry to a named memory, unless it is there already
(docs/memories.md)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.dedup.similarity import DUPLICATE, RELATED
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_write import Mode, NewEntry, Written, write_entry
from memrelay.memory.operations.memories_get import fetch_memory
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.records.data import Data
from memrelay.memory.records.entry_vector import known_vector
from memrelay.memory.records.memory_view import (
    Fact,
    Ident,
    Source,
    TagList,
    WrittenEntry,
    entry_fields,
)
from memrelay.memory.sqlite.store import Transaction

Threshold = Annotated[float, Field(ge=0, le=2)]  # above 1: never


@dataclass(frozen=True, slots=True)
class CreateEntry:
    """What is to be remembered, and how alike another entry must be to hold it already."""

    memory_id: Ident
    """The memory that it belongs to."""
    content: Fact
    """The fact or observation."""
    source: Source = "manual"
    """Where it comes from."""
    tags: TagList = ()
    """Words to find it by."""
    metadata: Data | None = None
    """What else is known of it: a JSON object of 64 KiB at most. An entry that grows gets what is
    new in it, too."""
    duplicate_threshold: Threshold = DUPLICATE
    """How alike another entry must be for this one to be skipped; more than 1 is never."""
    update_threshold: Threshold = RELATED
    """How alike another entry must be for this one to be added to it; more than 1 is never."""
    mode: Mode | None = None
    """`skip` adds to no entry, `merge` adds also what is a duplicate, `supersede` replaces in the
    place of adding, `create`
    looks at nothing; none is the document's rule."""


@operation("entries.create", access="write", mutates=True, at_home=True, embeds="content")
def create_entry(tx: Transaction, new: CreateEntry, context: Context) -> WrittenEntry:
    """Writes an entry: it is created, added to one that overlaps, or skipped where one says the
    same.

    Raises NotThere for a memory that is none.
    """
    fetch_memory(tx, new.memory_id)
    entry = NewEntry(
        context.new_guid(),
        new.memory_id,
        new.content,
        context.now_ms,
        new.source,
        tuple(dict.fromkeys(new.tags)),
        new.duplicate_threshold,
        new.update_threshold,
        new.mode,
        new.metadata or {},
    )
    return told_of(tx, write_entry(tx, entry, known_vector(tx, new.content)))


def told_of(tx: Transaction, written: Written) -> WrittenEntry:
    """What a write made, as it is told."""
    record, further = fetch(tx, written.guid)
    fields = entry_fields(record, further, tx.memory_id, tx.entries.confirmed(written.guid))
    return WrittenEntry(
        **fields,
        action=written.action,
        score=round(written.likeness.score, 4),
        why=written.likeness.why,
    )
