"""memory_delete: delete one record by its guid, or all records of a kind (seed 000; `by` is
ours)."""

from typing import Literal

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, MemoryArgs
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.records.deletion import DeleteInput, delete


class DeleteArgs(MemoryArgs):
    """The first one that is set counts: `guid`, the text, `kind`. With `by: "kind"` the text is
    ignored."""

    guid: str = ""
    """The record to delete; the text by default."""
    kind: str = ""
    """Delete every record of this kind if there is neither a guid nor a text."""
    by: Literal["", "guid", "kind"] = ""
    """`kind` ignores the text and deletes the kind; `guid` never deletes a kind."""

    def warnings(self) -> list[str]:
        """Warn if `by` names an argument that is missing."""
        deletes_nothing = self.by == "kind" and not self.kind
        return super().warnings() + (
            ['by is "kind", but kind is not set: nothing is ever deleted']
            if deletes_nothing
            else []
        )


@block("memory_delete", DeleteArgs)
def memory_delete(call: Call, args: DeleteArgs) -> Message:
    """Return {"deleted": count}, or {"skipped": "no query"}."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    guid = "" if args.by == "kind" else args.guid or call.text.strip()
    kind = "" if args.by == "guid" else args.kind
    if not guid and not kind:
        return call.reply_json({"skipped": "no query"})
    return call.reply_json({"deleted": delete(call.tx, DeleteInput(guid, kind))})
