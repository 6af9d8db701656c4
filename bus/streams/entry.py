"""What is appended to a pipeline's input: the one place where an entry is packed."""

from msgspec import Struct

from memrelay.bus.client.resp import bulk
from memrelay.bus.keys import input_key

LONGEST_ID = 256  # characters of a producer's own id


def may_be_id(ident: str) -> bool:
    """Whether a producer may give its message this id; "" stands for none."""
    return len(ident) <= LONGEST_ID and ident.isprintable()


class NewEntry(Struct, frozen=True):
    """On its way in: a message, said on `swarm` or handed to the one `agent` of that alias, or a
    call of the operation `op`."""

    uid: str
    data: bytes  # the envelope; the input of `op`
    swarm: str = ""
    agent: str = ""
    producer_id: str = ""  # the producer's own id: the same one again has no second effect
    reply: str = ""  # the channel that awaits the end of the cascade
    published: bool = False  # the producer has already published the message on the channel
    hop: str = ""  # how many messages led to it
    origin: str = ""  # only on public swarms: the pipeline and id of the input that began the chain
    replay_of: str = ""  # the ID of the dead letter that this entry replays
    op: str = ""  # the name of the operation
    store: str = ""  # beside `op`: the memory_id of the store, by default the pipeline's first
    actor: str = ""  # beside `op`: who calls

    def pack(self) -> bytes:
        """The command that appends it."""
        words = [b"$4\r\nXADD\r\n", bulk(input_key(self.uid)), b"$1\r\n*\r\n"]
        if self.swarm:
            words += b"$5\r\nswarm\r\n", bulk(self.swarm)
        if self.agent:
            words += b"$5\r\nagent\r\n", bulk(self.agent)
        words += b"$4\r\ndata\r\n", bulk(self.data)
        if self.producer_id:
            words += b"$2\r\nid\r\n", bulk(self.producer_id)
        if self.reply:
            words += b"$5\r\nreply\r\n", bulk(self.reply)
        if self.hop:
            words += b"$3\r\nhop\r\n", bulk(self.hop)
        if self.origin:
            words += b"$6\r\norigin\r\n", bulk(self.origin)
        if self.replay_of:
            words += b"$9\r\nreplay_of\r\n", bulk(self.replay_of)
        if self.op:
            words += (
                b"$2\r\nop\r\n",
                bulk(self.op),
                b"$5\r\nstore\r\n",
                bulk(self.store),
                b"$5\r\nactor\r\n",
                bulk(self.actor),
            )
        if self.published:
            words.append(b"$9\r\npublished\r\n$1\r\n1\r\n")
        return b"*%d\r\n" % (len(words) + self.published) + b"".join(words)
