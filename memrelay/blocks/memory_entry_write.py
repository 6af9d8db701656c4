"""memory_entry_write: write the text to a named memory, unless an entry already states it
(docs/memories.md)."""

from typing import Any

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    NO_MEMORY_ID,
    NamedMemoryArgs,
    Tags,
    naming_call,
    retry_when_ready,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import VectorPending
from memrelay.memory.models.named_memories.dedup.similarity import DUPLICATE, RELATED
from memrelay.memory.models.named_memories.entries import (
    Mode,
    NewEntry,
    Threshold,
    WriteResult,
    view_written_entry,
    write_entry,
)
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS, request_vector
from memrelay.memory.models.named_memories.memories import CreateMemory, Source, add_memory
from memrelay.memory.models.named_memories.table import Memory, MemoryTable
from memrelay.memory.records.view import Name
from memrelay.memory.search.embedding.questions import EmbeddedQuestion


class EntryArgs(NamedMemoryArgs):
    """The store holds the pipeline's named memories: `instances/${pipeline_uid}/memories`."""

    memory: Name = ""
    """Required. The memory's id or name. A memory with an unknown name is created."""
    source: Source = "agent"
    """Source of the entries: `manual`, `agent`, `extraction` or `orchestration`."""
    tags: Tags = ()
    """Tags of a new entry: a JSON array in a string, an array, or a comma list."""
    duplicate_threshold: Threshold = DUPLICATE
    """Similarity from which an entry counts as a duplicate and the text is skipped. Above 1, only
    an equal text is skipped."""
    update_threshold: Threshold = RELATED
    """Similarity from which the text is added to an entry. A value above 1 disables the rule."""
    mode: Mode | None = None
    """`current`, `skip`, `merge`, `create` or `supersede`, as in `entries.create`. By default,
    related texts are appended ([memories.md](memories.md))."""

    @property
    def embeds(self) -> bool:
        """Return True: entries are compared by meaning."""
        return True

    def warnings(self) -> list[str]:
        """Warn if `memory` is missing: every call would fail."""
        return super().warnings() + [NO_MEMORY] * (not self.memory.strip())


# A vector is awaited for this long. Then the text is compared by its words alone.
MAX_WAIT_S = 1.0
NO_MEMORY = "memory is missing: set it in wf_webhook_args to the id or the name of a memory"


@block("memory_entry_write", EntryArgs)
def memory_entry_write(call: Call, args: EntryArgs) -> Message:
    """Return the entry that contains the text now, with its `action`: `created`, `updated` or
    `skipped`."""
    if fault := _input_fault(call, args):
        return call.error(fault)
    question = _vector(call)
    memory = _find_or_create_memory(call, args.memory)
    if memory is None:
        return call.error(f"no memory has the id {args.memory!r}: set its name, or create it first")
    new = NewEntry(
        call.new_guid(),
        memory.id,
        call.text,
        call.now_ms,
        args.source,
        args.tags,
        args.duplicate_threshold,
        args.update_threshold,
        args.mode,
    )
    with naming_call("entries.create", lambda: _as_input(call, args)):
        written = _write(call, new, question)
    return call.reply_json(view_written_entry(call.tx, written))


def _as_input(call: Call, args: EntryArgs) -> dict[str, Any]:
    """Return the input of `entries.create` that writes the same."""
    names = ("memory", "source", "tags", "duplicate_threshold", "update_threshold", "mode")
    return {"content": call.text} | {name: getattr(args, name) for name in names}


def _input_fault(call: Call, args: EntryArgs) -> str:
    if not args.memory_id:
        return NO_MEMORY_ID
    if not args.memory.strip():
        return NO_MEMORY
    if not call.text.strip():
        return "no content"
    if len(call.text) > MAX_ENTRY_CHARACTERS:
        return f"an entry has at most {MAX_ENTRY_CHARACTERS} characters"
    return ""


def _find_or_create_memory(call: Call, name: str) -> Memory | None:
    """Return the memory with this id or name. An unknown name is created, an unknown id is not."""
    table = call.tx.table(MemoryTable)
    memory = table.find(name) or table.named(name)
    if memory is None and name.startswith("mem_"):
        return None
    return memory or add_memory(call.tx, CreateMemory(name), call.new_guid(), call.now_ms)


def _write(call: Call, new: NewEntry, question: EmbeddedQuestion | None) -> WriteResult:
    """Write the entry; a merged text whose vector takes longer than MAX_WAIT_S gets it later."""
    try:
        return write_entry(call.tx, new, question)
    except VectorPending as awaited:
        if awaited.after_s > MAX_WAIT_S:
            return write_entry(call.tx, new._replace(may_wait=False), question)
        raise retry_when_ready(awaited) from awaited


def _vector(call: Call) -> EmbeddedQuestion | None:
    """Return the vector of the text; None if it takes longer than MAX_WAIT_S."""
    try:
        return request_vector(call.tx, call.text)
    except VectorPending as awaited:
        if awaited.after_s > MAX_WAIT_S:
            return None
        raise retry_when_ready(awaited) from awaited
