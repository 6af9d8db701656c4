"""memory_entry_write: writes the text to a named memory, unless an entry says the same already
(docs/memories.md)."""

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, NamedMemoryArgs, Tags, put_off
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.dedup.similarity import DUPLICATE, RELATED
from memrelay.memory.embedding.questions import Question
from memrelay.memory.errors import VectorAwaited
from memrelay.memory.operations.entries_create import Threshold, told_of
from memrelay.memory.operations.entries_write import Mode, NewEntry, write_entry
from memrelay.memory.operations.memories_create import CreateMemory, add_memory
from memrelay.memory.records.entry_text import MOST_CHARACTERS
from memrelay.memory.records.entry_vector import asked_vector
from memrelay.memory.records.memory_view import Source
from memrelay.memory.records.view import Name


class EntryArgs(NamedMemoryArgs):
    """The store is that of the pipeline's named memories: `instances/${pipeline_uid}/memories`."""

    memory: Name = ""
    """The memory's id, or its name; a memory of that name is made where there is none. Needed."""
    source: Source = "agent"
    """Where the entries come from: `manual`, `agent`, `extraction` or `orchestration`."""
    tags: Tags = ()
    """Tags of a new entry: a JSON array in a string, an array, or a comma list."""
    duplicate_threshold: Threshold = DUPLICATE
    """How alike an entry must be for the text to be skipped; more than 1 is never."""
    update_threshold: Threshold = RELATED
    """How alike an entry must be for the text to be added to it; more than 1 is never."""
    mode: Mode | None = None
    """`skip`, `merge`, `create` or `supersede`, as `entries.create` has them; by default the
    document's rule."""

    @property
    def embeds(self) -> bool:
        """Entries are compared by what they mean."""
        return True

    def warnings(self) -> list[str]:
        """Without a memory the block answers with an error each time."""
        return super().warnings() + [NO_MEMORY] * (not self.memory.strip())


MOST_S = 1.0  # for which a vector is awaited before the text alone must do
NO_MEMORY = "memory is missing: set it in wf_webhook_args to the id or the name of a memory"


@block("memory_entry_write", EntryArgs)
def memory_entry_write(call: Call, args: EntryArgs) -> Message:
    """Answers with the entry that holds the text now and its `action`: `created`, `updated` or
    `skipped`."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if not args.memory.strip():
        return call.error(NO_MEMORY)
    if not call.text.strip() or len(call.text) > MOST_CHARACTERS:
        return call.error(
            "no content"
            if not call.text.strip()
            else f"an entry has at most {MOST_CHARACTERS} characters"
        )
    question = _vector(call)
    found = call.tx.memories.find(args.memory) or call.tx.memories.named(args.memory)
    if found is None and args.memory.startswith("mem_"):
        return call.error(f"no memory has the id {args.memory!r}; name it, or make it first")
    memory = found or add_memory(call.tx, CreateMemory(args.memory), call.new_guid(), call.now_ms)
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
    return call.reply_json(told_of(call.tx, write_entry(call.tx, new, question)))


def _vector(call: Call) -> Question | None:
    """The vector of the text; None where it takes too long: nothing that is to be kept is given up
    for that."""
    try:
        return asked_vector(call.tx, call.text)
    except VectorAwaited as awaited:
        if awaited.after_s > MOST_S:
            return None
        raise put_off(awaited) from awaited
