"""The message that pipelines pass on: the Kilroy envelope.

These are msgspec structs, because each input leads to about three messages. They are immutable and
checked during decoding, and cost a fifth of a frozen dataclass.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError, to_builtins
from msgspec.json import Decoder, Encoder

PLAIN, JSON = "text/plain", "application/json"
# The body of a webhook, as configured at most.
MAX_WEBHOOK_BYTES = 25 << 20
# An envelope may be so many times as long as the body: JSON as a text escapes each quote.
ENVELOPE_FACTOR = 2.2
# In ms this is March 1973, so a smaller timestamp must be in seconds.
SECONDS_BELOW = 100_000_000_000

# Fields of a part that name a user and a session. They count only if `Message.vouched` has them, so
# that an outside client cannot act as another user.
IDENTITY_FIELDS = ("user_id", "session_id")

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
_parse_fields = Decoder(dict[str, Any]).decode
_split_fields = Decoder(dict[str, Raw]).decode
_to_json = Encoder().encode


class Message(Struct, frozen=True, gc=False):
    """A sender and its parts. `text`, `type` and `timestamp` are those of the first part.

    `sender` is the envelope's `from`. `id` is the originator's alias, never an idempotency key.
    Parts from outside are passed on unparsed, with unknown keys. `left_out` is the number of
    results that did not fit into the message. `vouched` are the IDENTITY_FIELDS of the first part
    that a block of this pipeline has set, or that the input vouches for.
    """

    sender: str
    id: str
    text: str
    type: str
    timestamp: Timestamp
    args: tuple[Part | Raw, ...]
    left_out: int = 0
    vouched: tuple[str, ...] = ()

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

    @property
    def part(self) -> dict[str, Any]:
        """Return the fields of the first part, without IDENTITY_FIELDS that do not count.

        It is decoded at each access.
        """
        first = self.args[0]
        fields = to_builtins(first) if isinstance(first, Part) else _parse_fields(first)
        ignored = [name for name in IDENTITY_FIELDS if name not in self.vouched]
        return {name: value for name, value in fields.items() if name not in ignored}

    @property
    def envelope_bytes(self) -> int:
        left_out = {"left_out": self.left_out} if self.left_out else {}
        return len(_to_json({"from": self.sender, "id": self.id, "args": self.args} | left_out))

    def with_fields(self, sender: str, fields: Mapping[str, Any]) -> "Message":
        """Return the message from another sender, with these fields set in its first part.

        All else stays byte for byte. Fields in IDENTITY_FIELDS count from now on. Raises TypeError
        if a field has a wrong type.
        """
        first = self.args[0]
        kept = _split_fields(_to_json(first) if isinstance(first, Part) else first)
        data = _to_json({**kept, **fields})
        try:
            part = parse_part(data)
        except ValidationError as error:
            raise TypeError(f"a message part cannot have these fields: {error}") from error
        return Message(
            sender,
            self.id,
            part.text or "",
            part.type or PLAIN,
            part.timestamp,
            (Raw(data), *self.args[1:]),
            self.left_out,
            tuple(name for name in IDENTITY_FIELDS if name in fields or name in self.vouched),
        )

    def under(self, sender: str) -> "Message":
        """Return the same message from another sender."""
        return Message(
            sender,
            self.id,
            self.text,
            self.type,
            self.timestamp,
            self.args,
            self.left_out,
            self.vouched,
        )


def envelope_limit(body_bytes: int) -> int:
    """Return how many bytes the envelope of a body may have."""
    return int(body_bytes * ENVELOPE_FACTOR)


def new_message(
    sender: str, ident: str, text: str, *, username: str, now_ms: int, kind: str = PLAIN
) -> Message:
    """Return a message of one part with the timestamp `now_ms`."""
    return Message(sender, ident, text, kind, now_ms, (Part(username, text, now_ms, kind),))
