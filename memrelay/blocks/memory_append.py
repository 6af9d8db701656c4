"""memory_append: append the text to a record, or create one (seed 000; `separator` is ours)."""

from typing import NamedTuple

import msgspec

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, TEMPLATE_READS, NewRecordArgs, parse_object
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.records.record import DEFAULT_KIND, PLAIN
from memrelay.memory.records.writing import AppendInput, WriteInput, append

ADDITION_KEYS = {"guid", "text", "content"}


class AppendArgs(NewRecordArgs):
    """`guid` selects the record, here or in the message. Otherwise, if `scope` or `kind` is set, it
    is the oldest record with the given `scope`, `kind` and `source`.

    A message names the record in its text, as `{"guid": "...", "text": "..."}`, or in the field
    `targs` of its first part, as `{"guid": "..."}`."""

    guid: str = ""
    """The record to append to, if it exists. It takes precedence over a guid in the message."""
    separator: str = "\n"
    """Text between the old and the new content; a line break by default."""


@block("memory_append", AppendArgs)
def memory_append(call: Call, args: AppendArgs) -> Message:
    """Return {"guid": ..., "appended": true}, or {"guid": ..., "created": true}."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    guid, text = _read_message(call.message)
    if not text:
        return call.error("no content")
    extras = PLAIN
    if (selection := args.selection) is not None:
        text, extras = selection.select_content(call, text), selection.select_extras(call)
    new = WriteInput(
        call.new_guid(),
        args.scope or args.memory_id,
        args.kind or DEFAULT_KIND,
        text,
        args.source or call.agent.name,
        args.tags,
        call.now_ms,
        expires_at=args.ttl_s and call.now_ms + 1000 * args.ttl_s,
        extras=extras,
    )
    filters = args.filters("scope", "kind", "source") if args.scope or args.kind else {}
    max_bytes = call.limits.message_bytes * TEMPLATE_READS
    request = AppendInput(new, args.guid or guid, filters, args.separator, max_bytes)
    guid, found = append(call.tx, request)
    return call.reply_json({"guid": guid, "appended" if found else "created": True})


class _Addition(NamedTuple):
    """The guid that a message names, "" for none, and the text to append."""

    guid: str
    text: str


class _PartWithArgs(msgspec.Struct):
    """The field of a part that an earlier step fills: an object, or an object as JSON text."""

    targs: object = None


def _read_message(message: Message) -> _Addition:
    """Return what a message wants to append.

    JSON without both, or with other keys, is a text like any other.
    """
    if message.text.startswith("{"):
        value = parse_object(message.text) or {}
        text, named = value.get("text", value.get("content")), value.get("guid")
        if isinstance(named, str) and isinstance(text, str) and value.keys() <= ADDITION_KEYS:
            return _Addition(named, text)
    part = message.args[0]
    if isinstance(part, msgspec.Raw) and b'"targs"' in memoryview(part).tobytes():
        targs = msgspec.json.decode(part, type=_PartWithArgs).targs
        fields = parse_object(targs) if isinstance(targs, str) else targs
        named = fields.get("guid") if isinstance(fields, dict) else None
        return _Addition(named if isinstance(named, str) else "", message.text)
    return _Addition("", message.text)
