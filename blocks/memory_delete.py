"""memory_delete: deletes one record by its guid, or all of a kind (seed 000; `by` is ours)."""

from typing import Literal

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, MemoryArgs
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.operations.records_delete import DeleteInput, delete


class DeleteArgs(MemoryArgs):
    """A `guid` here comes first, then the text, then `kind`. `by: "kind"` deletes the kind whatever
    the text says."""

    guid: str = ""
    """The record to delete; by default the text says which."""
    kind: str = ""
    """Where there is neither a guid nor a text, every record of this kind is deleted."""
    by: Literal["", "guid", "kind"] = ""
    """`kind` deletes the kind whatever the text says; `guid` never deletes a kind."""

    def warnings(self) -> list[str]:
        """`by` without what it names deletes nothing."""
        idle = self.by == "kind" and not self.kind
        return super().warnings() + (
            ['by is "kind", but kind is not set: nothing is ever deleted'] if idle else []
        )


@block("memory_delete", DeleteArgs)
def memory_delete(call: Call, args: DeleteArgs) -> Message:
    """Answers {"deleted": count}, or {"skipped": "no query"}."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    guid = "" if args.by == "kind" else args.guid or call.text.strip()
    kind = "" if args.by == "guid" else args.kind
    if not guid and not kind:
        return call.reply_json({"skipped": "no query"})
    return call.reply_json({"deleted": delete(call.tx, DeleteInput(guid, kind))})
