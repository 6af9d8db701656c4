"""memory_turn: keeps a conversation: every message that it hears is stored as a turn of a
thread."""

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import NO_MEMORY_ID, MemoryArgs, Seconds, Tags
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.operations.records_write import WriteInput, write

KIND = "turn"
TOKEN = re.compile(r"\{\{\s*(\w+)\s*\}\}")
BRACES = re.compile(r"\{\{[^{}]{0,100}(\}\})?|\}\}")
TOKENS = ("pipeline", "swarm", "from", "username", "date")
MOST_CHARACTERS = 512  # of a thread's name, which stands in an index


def _tokens(thread: str) -> str:
    """Anything else in double braces would stay as it is, and one thread would hold what was meant
    for many."""
    known = ", ".join(f"{{{{{name}}}}}" for name in TOKENS)
    for token in TOKEN.findall(thread):
        if token not in TOKENS:
            raise ValueError(f"there is no {{{{{token}}}}}; known are {known}")
    if left := BRACES.search(TOKEN.sub(" ", thread)):
        raise ValueError(
            f"{left[0]} is not one of the tokens, which stand alone in double braces; known are {known}"
        )
    return thread


class TurnArgs(MemoryArgs):
    """A turn has the message's text and time, and as its `source` who said it: the message's
    username, else its `from`."""

    thread: Annotated[str, AfterValidator(_tokens)] = ""
    """The conversation; by default one for each swarm. `{{pipeline}}`, `{{swarm}}`, `{{from}}`,
    `{{username}}` and
    `{{date}}` (the message's day, UTC) may stand in it: `{{swarm}} {{date}}` begins a thread each
    day."""
    scope: str = ""
    """The turns' scope; by default the memory_id."""
    kind: str = KIND
    """The turns' kind."""
    tags: Tags = ()
    """Tags of the turns: a JSON array in a string, an array, or a comma list."""
    ttl_s: Seconds | None = None
    """After so many seconds a turn is gone; by default it stays."""


@block("memory_turn", TurnArgs)
def memory_turn(call: Call, args: TurnArgs) -> Message | None:
    """Says nothing, so that it may listen to everything that is said; what has no text is not
    kept."""
    if not args.memory_id:
        return call.error(NO_MEMORY_ID)
    if call.text:
        said_ms = min(
            max(call.message.timestamp_ms or call.now_ms, 0), call.now_ms
        )  # nothing is said in the future
        write(
            call.tx,
            WriteInput(
                call.new_guid(),
                args.scope or args.memory_id,
                args.kind or KIND,
                call.text,
                call.message.speaker,
                args.tags,
                said_ms,
                thread(call, args.thread, said_ms),
                expires_at=args.ttl_s and call.now_ms + 1000 * args.ttl_s,
            ),
        )
    return None


def thread(call: Call, template: str, said_ms: int) -> str:
    """The conversation that a message belongs to."""
    heard_on = call.agent.swarm or call.agent.alias
    values = {
        "pipeline": call.agent.pipeline,
        "swarm": heard_on,
        "from": call.message.sender,
        "username": call.message.speaker,
        "date": f"{datetime.fromtimestamp(said_ms / 1000, UTC):%Y-%m-%d}",
    }
    return TOKEN.sub(lambda token: values[token[1]], template or "{{pipeline}}/{{swarm}}")[
        :MOST_CHARACTERS
    ]
