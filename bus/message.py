"""The message that flows: what somebody said on a swarm (the Kilroy envelope, contracts/kilroy.md
A1).

msgspec's structs, since three messages are made for each that comes in: they are immutable, checked
while they are decoded,
and cost a fifth of a frozen dataclass.
"""

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder

PLAIN, JSON = "text/plain", "application/json"
SECONDS_BELOW = 100_000_000_000  # as ms this is March 1973: a smaller timestamp is in seconds

Timestamp = int | float | str | UnsetType | None


class Part(Struct, frozen=True, gc=False):
    """One thing said, one of an envelope's `args`. We new_message `timestamp` in Unix ms; chat clients send
    seconds, or text."""

    username: str | UnsetType | None = UNSET
    text: str | None = ""
    timestamp: Timestamp = UNSET
    type: str | None = PLAIN


to_part = Decoder(Part).decode


class Message(Struct, frozen=True, gc=False):
    """Who said what. `text`, `type` and `timestamp` are those of the first part, which alone blocks
    read."""

    sender: str  # the envelope's `from`
    id: str  # the originator's alias, and never a key to deduplicate by
    text: str
    type: str
    timestamp: Timestamp
    args: tuple[
        Part | Raw, ...
    ]  # all parts; what came from outside travels on as it came, unknown keys and all

    @property
    def timestamp_ms(self) -> int | None:
        """When it was said, Unix ms, whichever unit was sent; None where it cannot be told."""
        try:
            value = float(self.timestamp)  # type: ignore[arg-type]
            return int(value * 1000 if value < SECONDS_BELOW else value)
        except (TypeError, ValueError, OverflowError):
            return None

    @property
    def speaker(self) -> str:
        """Who says it: the user that the first part names, else the sender."""
        first = self.args[0]
        username = (first if isinstance(first, Part) else to_part(first)).username
        return username if isinstance(username, str) and username else self.sender

    def under(self, sender: str) -> "Message":
        """The same message, said by another."""
        return Message(sender, self.id, self.text, self.type, self.timestamp, self.args)


def new_message(
    sender: str, ident: str, text: str, *, username: str, now_ms: int, kind: str = PLAIN
) -> Message:
    """A message of one part, said now."""
    return Message(sender, ident, text, kind, now_ms, (Part(username, text, now_ms, kind),))
