"""What is appended to a pipeline's input: the one place where an entry is packed."""
from dataclasses import dataclass

from bus.resp import Word, pack
from bus.wire import input_key


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A message on its way in: said on `swarm`, or handed to the one `agent` of that alias."""

    uid: str
    data: bytes            # the envelope
    swarm: str = ""
    agent: str = ""
    producer_id: str = ""  # the producer's own id: the same one again has no second effect
    reply: str = ""        # the channel that awaits the end of the cascade
    heard: bool = False    # it was published on the channel already, by who said it

    def pack(self) -> bytes:
        """The command that appends it."""
        words: list[Word] = ["XADD", input_key(self.uid), "*"]
        fields = (("swarm", self.swarm), ("agent", self.agent), ("data", self.data), ("id", self.producer_id),
                  ("reply", self.reply), ("heard", "1" if self.heard else ""))
        for name, value in fields:
            if value or name == "data":
                words += (name, value)
        return pack(*words)
