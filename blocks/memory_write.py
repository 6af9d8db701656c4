"""memory_write: stores the text as a new record (seed 000)."""
from blocks.contract import Call
from blocks.memory_args import NO_MEMORY_ID, NewRecordArgs
from blocks.registry import block
from bus.message import JSON, Message
from memory.operations.records_write import WriteInput, write
from memory.record import DEFAULT_KIND


class WriteArgs(NewRecordArgs):
    """What the new record is filed under, and how long it stays."""


@block("memory_write", WriteArgs)
def memory_write(call: Call, args: WriteArgs) -> Message:
    """Answers {"guid": ...}."""
    text = call.text
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if not text:
        return call.error("no content")
    guid = write(call.tx, WriteInput(
        call.new_guid(), args.scope or args.memory_id, args.kind or DEFAULT_KIND, text, args.source or call.agent.name,
        args.tags, call.now_ms, expires_at=args.ttl_s and call.now_ms + 1000 * args.ttl_s))
    return call.reply(f'{{"guid":"{guid}"}}', JSON)
