"""The message that pipelines pass on: the Kilroy envelope.

These are msgspec structs, because each input leads to about three messages. They are immutable and
checked during decoding, and cost a fifth of a frozen dataclass.
"""

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder

PLAIN, JSON = "text/plain", "application/json"
# In ms this is March 1973, so a smaller timestamp must be in seconds.
SECONDS_BELOW = 100_000_000_000

Timestamp = int | float | str | UnsetType | None


class Part(Struct, frozen=True, gc=False):
    """One of an envelope's `args`.

    Memrelay writes `timestamp` in Unix ms. Chat clients send seconds or text.
    """

    username: str | UnsetType | None = UNSET
    text: str | None = ""
    timestamp: Timestamp = UNSET
    type: str | None = PLAIN


parse_part = Decoder(Part).decode


class Message(Struct, frozen=True, gc=False):
    """A sender and its parts. `text`, `type` and `timestamp` are those of the first part.

    `sender` is the envelope's `from`. `id` is the originator's alias, never an idempotency key.
    Parts from outside are passed on unparsed, with unknown keys. `left_out` is the number of
    results that did not fit into the message.
    """

    sender: str
    id: str
    text: str
    type: str
    timestamp: Timestamp
    args: tuple[Part | Raw, ...]
    left_out: int = 0

    @property
    def timestamp_ms(self) -> int | None:
        """Return the timestamp in Unix ms, None if it is not a number."""
        try:
            value = float(self.timestamp)  # type: ignore[arg-type]
            return int(value * 1000 if value < SECONDS_BELOW else value)
        except (TypeError, ValueError, OverflowError):
            return None

    @property
    def speaker(self) -> str:
        """Return the username of the first part, or the sender if it has none."""
        first = self.args[0]
        username = (first if isinstance(first, Part) else parse_part(first)).username
        return username if isinstance(username, str) and username else self.sender

    def under(self, sender: str) -> "Message":
        """Return the same message from another sender."""
        return Message(
            sender, self.id, self.text, self.type, self.timestamp, self.args, self.left_out
        )


def new_message(
    sender: str, ident: str, text: str, *, username: str, now_ms: int, kind: str = PLAIN
) -> Message:
    """Return a message of one part with the timestamp `now_ms`."""
    return Message(sender, ident, text, kind, now_ms, (Part(username, text, now_ms, kind),))
