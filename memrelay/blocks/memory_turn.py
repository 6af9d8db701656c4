"""memory_turn: store every message that the agent receives as a turn of a conversation."""

import re
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator

from memrelay.blocks.contract import Call
from memrelay.blocks.json_values import OptionalExpression, Selection, make_selection
from memrelay.blocks.memory_args import NO_MEMORY_ID, MemoryArgs, NewKind, Seconds, Tags
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.records.record import PLAIN
from memrelay.memory.records.writing import WriteInput, write

KIND = "turn"
TOKEN = re.compile(r"\{\{\s*(\w+)\s*\}\}")
BRACES = re.compile(r"\{\{[^{}]{0,100}(\}\})?|\}\}")
TOKENS = ("pipeline", "swarm", "from", "username", "date")
MAX_THREAD = 512  # characters of a thread's name, which is indexed


def _check_tokens(thread: str) -> str:
    """Refuse other double braces: they would stay as text and merge many threads into one."""
    known_tokens = ", ".join(f"{{{{{name}}}}}" for name in TOKENS)
    for token in TOKEN.findall(thread):
        if token not in TOKENS:
            raise ValueError(f"unknown token {{{{{token}}}}}; known are {known_tokens}")
    if left := BRACES.search(TOKEN.sub(" ", thread)):
        raise ValueError(f"{left[0]} is not a token; known are {known_tokens}")
    return thread


class TurnArgs(MemoryArgs):
    """A turn has the text and time of its message. Its `source` is the message's username, or its
    `from`."""

    thread: Annotated[str, AfterValidator(_check_tokens)] = ""
    """Name of the conversation; one for each swarm by default. It may contain `{{pipeline}}`,
    `{{swarm}}`, `{{from}}`, `{{username}}` and `{{date}}` (the UTC day of the message):
    `{{swarm}} {{date}}` starts a thread every day."""
    scope: str = ""
    """Scope of the turns; the memory_id by default."""
    kind: NewKind = KIND
    """Kind of the turns."""
    tags: Tags = ()
    """Tags of the turns: a JSON array in a string, an array, or a comma list."""
    ttl_s: Seconds | None = None
    """Seconds after which a turn expires. By default it never expires."""
    content: OptionalExpression = ""
    """JMESPath expression of the turn's text over the JSON of the message, like `event.text`. By
    default, and if it gives null, it is the whole text."""
    data: OptionalExpression = ""
    """JMESPath expression of the `data` of a turn, as for `memory_write`."""

    @cached_property
    def selection(self) -> Selection | None:
        return make_selection(self.content, self.data)


@block("memory_turn", TurnArgs)
def memory_turn(call: Call, args: TurnArgs) -> Message | None:
    """Publish nothing, so the agent may listen to all messages. A message without text is
    skipped."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if text := call.text:
        extras = PLAIN
        if (selection := args.selection) is not None:
            text, extras = selection.select_content(call, text), selection.select_extras(call)
        # A sender's clock may be ahead.
        sent_at_ms = min(max(call.message.timestamp_ms or call.now_ms, 0), call.now_ms)
        write(
            call.tx,
            WriteInput(
                call.new_guid(),
                args.scope or args.memory_id,
                args.kind or KIND,
                text,
                call.message.speaker,
                args.tags,
                sent_at_ms,
                _render_thread(call, args.thread, sent_at_ms),
                expires_at=args.ttl_s and call.now_ms + 1000 * args.ttl_s,
                extras=extras,
            ),
        )
    return None


def _render_thread(call: Call, template: str, sent_at_ms: int) -> str:
    """Return the name of the conversation that the message belongs to."""
    values = {
        "pipeline": call.agent.pipeline,
        "swarm": call.agent.swarm or call.agent.alias,
        "from": call.message.sender,
        "username": call.message.speaker,
        "date": f"{datetime.fromtimestamp(sent_at_ms / 1000, UTC):%Y-%m-%d}",
    }
    name = TOKEN.sub(lambda token: values[token[1]], template or "{{pipeline}}/{{swarm}}")
    return name[:MAX_THREAD]
