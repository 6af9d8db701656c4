"""memory_append: append the text to a record, or create one (seed 000; `separator` is ours)."""

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, TEMPLATE_READS, NewRecordArgs
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.operations.records_append import AppendInput, append
from memrelay.memory.operations.records_write import WriteInput
from memrelay.memory.records.record import DEFAULT_KIND


class AppendArgs(NewRecordArgs):
    """`guid` selects the record. Otherwise, if `scope` or `kind` is set, it is the oldest record
    with the given `scope`, `kind` and `source`."""

    guid: str = ""
    """The record to append to, if it exists."""
    separator: str = "\n"
    """Text between the old and the new content; a line break by default."""


@block("memory_append", AppendArgs)
def memory_append(call: Call, args: AppendArgs) -> Message:
    """Return {"guid": ..., "appended": true}, or {"guid": ..., "created": true}."""
    text = call.text
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if not text:
        return call.error("no content")
    new = WriteInput(
        call.new_guid(),
        args.scope or args.memory_id,
        args.kind or DEFAULT_KIND,
        text,
        args.source or call.agent.name,
        args.tags,
        call.now_ms,
        expires_at=args.ttl_s and call.now_ms + 1000 * args.ttl_s,
    )
    filters = args.filters("scope", "kind", "source") if args.scope or args.kind else {}
    max_bytes = call.limits.message_bytes * TEMPLATE_READS
    guid, found = append(call.tx, AppendInput(new, args.guid, filters, args.separator, max_bytes))
    return call.reply_json({"guid": guid, "appended" if found else "created": True})
