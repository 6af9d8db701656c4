"""A call of one of memory's operations, as it travels to the pipeline's owner and back.

What changes something is an entry of the input, and what does not a message on the channel
`pipeline:{<uid>}:ask`. Either is
answered on the caller's reply channel: `{"answer": {"output": ...}}`, or `{"answer": {"error":
{"code", "detail"}}}`.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from bus.entry import NewEntry
from bus.errors import MalformedMessage
from bus.wire import reply_channel

REFUSED = "refused"  # a rule was broken; nothing was changed
KEY_REUSED = "key_reused"  # the caller's key stands for another call; nothing was changed
BUSY = "busy"  # the owner has too much to answer
UNAVAILABLE = "unavailable"  # the store cannot be used now
LEAVING = "leaving"  # the owner lets the pipeline go
BROKEN = "broken"  # a fault of ours
SHAPE = 'a question is {"op": "...", "input": {...}, "reply": "reply:{...", "within_ms": ...}'


class NewCall(Struct, frozen=True):
    """A call on its way out."""

    uid: str
    op: str
    data: bytes  # the input as JSON
    mutates: bool
    store: str = ""  # the memory_id; "" for the pipeline's first
    actor: str = ""
    producer_id: str = (
        ""  # the caller's own key: the same call again has no second effect, another one is refused
    )

    def at(self, uid: str) -> "NewCall":
        """The same of another pipeline."""
        return replace(self, uid=uid)

    def as_entry(self, reply: str) -> NewEntry:
        """For the input."""
        return NewEntry(
            self.uid,
            self.data,
            op=self.op,
            store=self.store,
            actor=self.actor,
            producer_id=self.producer_id,
            reply=reply,
        )

    def as_question(self, reply: str, within_s: float, database: int) -> bytes:
        """For the channel; `database` is that of the caller's connection."""
        return _to_json(
            Question(
                self.op,
                reply,
                Raw(self.data),
                self.store,
                self.actor,
                int(within_s * 1000),
                database,
            )
        )


class Question(Struct, frozen=True):
    """A call that changes nothing, as the owner hears it."""

    op: str
    reply: str
    input: Raw
    store: str = ""
    actor: str = ""
    within_ms: int = 60_000  # after which nobody awaits the answer any more
    database: int | None = (
        # of the server, which has its channels in common for all: owners in others do not answer
        None
    )


def read_question(payload: bytes, uid: str) -> Question:
    """What was published on that pipeline's channel. Raises MalformedMessage, also where another's
    is to hear the answer."""
    try:
        question = _to_question(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage(f"{error}; {SHAPE}") from error
    own = reply_channel(uid, "")
    if not question.reply.startswith(own):
        raise MalformedMessage(f"the channel for the answer must begin with {own}; {SHAPE}")
    return question


def error_answer(code: str, detail: str) -> bytes:
    """An answer that says what is wrong."""
    return _to_json({"error": {"code": code, "detail": detail}})


def told_answer(answer: bytes) -> bytes:
    """What is published on the reply channel where there is nothing to tell beside the answer."""
    return _to_json({"answer": Raw(answer)})


_to_json = msgspec.json.Encoder().encode
_to_question = msgspec.json.Decoder(Question).decode
