"""entries.create: adds an entry to a named memory, with deduplication (docs/memories.md)."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.dedup.similarity import DUPLICATE, RELATED, Similarity
from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_write import (
    Mode,
    NewEntry,
    PlannedWrite,
    WriteResult,
    plan_creation,
    plan_write,
    write_entry,
)
from memrelay.memory.operations.memories_create import CreateMemory, add_memory
from memrelay.memory.operations.memories_get import fetch_memory, find_memory
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.records.data import Data
from memrelay.memory.records.entry_vector import find_cached_vector
from memrelay.memory.records.ids import uid_of
from memrelay.memory.records.memory_view import (
    Action,
    Fact,
    MaybeIdent,
    MaybeMemory,
    Source,
    TagList,
    WrittenEntry,
    entry_fields,
)
from memrelay.memory.sqlite.memories import Confirmed
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
    dry_run: bool = False
    """Return what the write would do, and write nothing.

    The answer has the entry as the write would leave it. Its `id` and `version` are "" if the write
    would create it, and `memory_id` is "" if the write would create the memory. An idempotency
    key has no effect.
    """


@operation("entries.create", access="write", mutates=True, home="memories", embeds="content")
def create_entry(tx: Transaction, new: CreateEntry, context: Context) -> WrittenEntry:
    """Write an entry: create it, add it to a similar entry, or skip it as a duplicate.

    Raises Refused: when the input names no memory, or two.
    Raises RecordNotFound: when no memory has the id.
    Raises VectorPending: when the vector of a merged text is not computed yet.
    """
    memory, question = _find_memory(tx, new), find_cached_vector(tx, new.content)
    if new.dry_run:
        entry = _new_entry(new, memory, context)
        planned = plan_write(tx, entry, question) if memory else plan_creation(entry)
        return view_planned_entry(tx, planned, context.now_ms)
    if not memory:
        memory = add_memory(tx, CreateMemory(new.memory), context.new_guid(), context.now_ms).id
    return view_written_entry(tx, write_entry(tx, _new_entry(new, memory, context), question))


def _new_entry(new: CreateEntry, memory: str, context: Context) -> NewEntry:
    """Return the entry for the memory with this id. A dry run needs no guid."""
    return NewEntry(
        "" if new.dry_run else context.new_guid(),
        memory,
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


def _find_memory(tx: Transaction, new: CreateEntry) -> str:
    """Return the id of the memory that the input names, "" if the write creates it.

    Raises Refused and RecordNotFound.
    """
    if bool(new.memory_id) == bool(new.memory):
        raise Refused("name one memory: set either `memory_id`, or `memory` to its name or id")
    if new.memory_id:
        return fetch_memory(tx, new.memory_id).id
    found = find_memory(tx, new.memory)
    if found is not None:
        return found.id
    return fetch_memory(tx, new.memory).id if uid_of("mem", new.memory) else ""


def view_written_entry(tx: Transaction, written: WriteResult) -> WrittenEntry:
    """Return the written entry with the action and the score of the comparison."""
    record, further = fetch(tx, written.guid)
    fields = entry_fields(record, further, tx.memory_id, tx.entries.confirmed(written.guid))
    return _view(fields, written.action, written.similarity)


def view_planned_entry(tx: Transaction, planned: PlannedWrite, now_ms: int) -> WrittenEntry:
    """Return the entry as the write would leave it at `now_ms`, Unix ms."""
    confirmed = tx.entries.confirmed(planned.after.guid)
    if planned.action == "skipped":
        confirmed = Confirmed(confirmed.times + 1, now_ms)
    fields = entry_fields(planned.after, planned.further, tx.memory_id, confirmed)
    if planned.old is None:
        fields |= {"id": "", "version": ""}
    return _view(fields, planned.action, planned.similarity)


def _view(fields: dict[str, Any], action: Action, similarity: Similarity) -> WrittenEntry:
    return WrittenEntry(
        **fields, action=action, score=round(similarity.score, 4), why=similarity.why
    )
