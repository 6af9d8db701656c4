"""Entries of a pipeline's input: the only place where one is packed."""

from msgspec import Struct

from memrelay.bus.client.resp import Word, pack
from memrelay.bus.keys import input_key
from memrelay.bus.streams.via import NO_VIA, Via

# Characters of a producer ID.
LONGEST_ID = 256


def is_valid_id(ident: str) -> bool:
    """Return whether a producer may use this ID; "" stands for none."""
    return len(ident) <= LONGEST_ID and ident.isprintable()


class NewEntry(Struct, frozen=True):
    """A new entry: a message for a `swarm` or one `agent`, or a call of an operation.

    `op` is the name of the operation, `store` the memory_id of its store (by default the
    pipeline's first) and `actor` the caller.
    """

    uid: str
    data: bytes  # the envelope; the input of `op`
    swarm: str = ""
    agent: str = ""  # the alias
    producer_id: str = ""  # the idempotency key
    reply: str = ""  # the channel that awaits the end of the cascade
    published: bool = False  # the sender has published it on the channel already
    hop: str = ""  # how many messages led to it
    origin: str = ""  # of a public message: the pipeline and ID of the input that it began with
    replay_of: str = ""  # the ID of the dead letter that is replayed
    op: str = ""
    store: str = ""
    actor: str = ""
    traceparent: str = ""  # the trace context (W3C) of the sender
    via: Via = NO_VIA  # how it came in

    def words(self) -> list[Word]:
        """Return the command that appends the entry."""
        words: list[Word] = ["XADD", input_key(self.uid), "*"]
        if self.swarm:
            words += "swarm", self.swarm
        if self.agent:
            words += "agent", self.agent
        words += "data", self.data
        if self.producer_id:
            words += "id", self.producer_id
        if self.reply:
            words += "reply", self.reply
        if self.hop:
            words += "hop", self.hop
        if self.origin:
            words += "origin", self.origin
        if self.replay_of:
            words += "replay_of", self.replay_of
        if self.op:
            words += "op", self.op, "store", self.store, "actor", self.actor
        if self.published:
            words += "published", "1"
        if self.traceparent:
            words += "traceparent", self.traceparent
        if self.via is not NO_VIA:
            words += "via", self.via.pack()
        return words

    def pack(self) -> bytes:
        """Return the packed command that appends the entry."""
        return pack(*self.words())
