"""Bytes to a `Message` and back, with the digest by which our own live copies are known."""

from binascii import hexlify
from zlib import crc32

import msgspec

from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.bus.message import PLAIN, Message, to_part

# The `mid` of a message, `<id>.<number>~<digest>`: the id of the input that led to it, its place
# among all that it led to, and a digest of the envelope. The digest tells our own copy from a
# message that carries our mid on with other words. It guards against accident, not against malice
# (the bus is trusted, and whoever forges it only keeps its own message from being read), so a
# CRC-32 does, at a third of a hash's cost.
DIGEST_SIZE = 8


def entry_id_of(number: int) -> bytes:
    """What stands between the id and the digest."""
    return b".%d~" % number


PLACES = [
    entry_id_of(number) for number in range(64)
]  # to format one costs as much as the rest of a mid
COPY_HEAD, COPY_JOINT = (
    b'{"mid":"',
    b'",',
)  # a live copy: head, mid, joint, the envelope without its "{"
LONGEST_MID = 256
SHAPE = 'an envelope is {"from": "...", "id": "...", "args": [{"text": "...", "type": "..."}]}'


class _Envelope(msgspec.Struct, frozen=True, gc=False, rename={"sender": "from"}):
    sender: str | None = ""
    id: str | None = ""
    args: tuple[msgspec.Raw, ...] = ()  # of ours, parts; the encoder takes either


_to_json = msgspec.json.Encoder().encode
_to_envelope = msgspec.json.Decoder(_Envelope).decode


def decode(data: bytes, max_bytes: int) -> Message:
    """The message in an envelope; raises MalformedMessage, which names the rule that is broken."""
    if len(data) > max_bytes:
        raise MessageTooLong(
            f"the message has {len(data)} bytes; bus.max_message_bytes allows {max_bytes}"
        )
    try:
        if not data.isascii():
            data.decode()  # parts travel on as they came, and what is no text must not
        envelope = _to_envelope(data)
        args = envelope.args
        if not args:
            raise MalformedMessage(f"the envelope has no `args`; {SHAPE}")
        part = to_part(args[0])
        for other in args[1:]:
            to_part(other)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"the message is no envelope: {error}; {SHAPE}") from error
    return Message(
        envelope.sender or "",
        envelope.id or "",
        part.text or "",
        part.type or PLAIN,
        part.timestamp,
        args,
    )


def encode(message: Message) -> bytes:
    """The envelope without `mid`: what goes to the log."""
    return _to_json(_Envelope(message.sender, message.id, message.args))  # type: ignore[arg-type]


def mid_of(ident: str, number: int, data: bytes) -> str:
    """The `mid` of what was said as number `number` of all that the input `ident` led to."""
    return (b"%s.%d~%s" % (ident.encode(), number, digest(data))).decode()


def digest(data: bytes) -> bytes:
    """The digest of an envelope: 8 digits."""
    return hexlify(crc32(data).to_bytes(4))


def is_own_copy(payload: bytes) -> bool:
    """Whether a channel message is a live copy that one of us published."""
    end = payload.find(b'"', 8, LONGEST_MID)
    if end < 18 or payload[end - 9] != _TILDE or payload[:8] != COPY_HEAD:
        return False
    return payload[end - 8 : end] == b"%08x" % crc32(payload[end + 2 :], _OPENING)


_TILDE = ord("~")
_OPENING = crc32(
    b"{"
)  # the digest runs over the envelope, whose "{" stands before the mid in the copy
