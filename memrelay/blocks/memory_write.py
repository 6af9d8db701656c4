"""memory_write: store the text as a new record (seed 000)."""

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, NewRecordArgs
from memrelay.blocks.registry import block
from memrelay.bus.message import JSON, Message
from memrelay.memory.records.record import PLAIN
from memrelay.memory.records.writing import WriteInput, write


class WriteArgs(NewRecordArgs):
    """The fields of the new record, and its lifetime."""


@block("memory_write", WriteArgs)
def memory_write(call: Call, args: WriteArgs) -> Message:
    """Return {"guid": ...}."""
    text = call.message.text
    scope, kind, source, tags, ttl_ms, selection = args.record_fields
    if not scope:
        return call.error(NO_MEMORY_ID)
    if not text:
        return call.error("no content")
    extras = PLAIN
    if selection is not None:
        text, extras = selection.select_content(call, text), selection.select_extras(call)
    now_ms = call.now_ms
    guid = write(
        call.tx,
        WriteInput(
            call.new_guid(),
            scope,
            kind,
            text,
            source or call.agent.name,
            tags,
            now_ms,
            expires_at=now_ms + ttl_ms if ttl_ms else None,
            extras=extras,
        ),
    )
    return call.reply(f'{{"guid":"{guid}"}}', JSON)
