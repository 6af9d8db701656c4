"""Decodes and encodes envelopes, and recognizes Memrelay's own live copies by a digest."""

from binascii import hexlify
from typing import Any, Literal
from zlib import crc32

import msgspec

from memrelay.bus.errors import MalformedMessage, MessageTooLong
from memrelay.bus.message import PLAIN, Message, envelope_limit, parse_part
from memrelay.bus.streams.via import NO_VIA, Via

# A message's `mid` is `<id>.<number>~<digest>`: the ID of the input that led to it, its number
# among all messages of that input, and a digest of the envelope. The digest distinguishes an own
# live copy from a message that reuses its mid with another text. It protects from accidents only,
# so a CRC-32 is enough, at a third of the cost of a hash.
DIGEST_SIZE = 8
LONGEST_MID = 256
# A live copy is: head, mid, joint, envelope without its "{".
COPY_HEAD, COPY_JOINT = b'{"mid":"', b'",'
SHAPE = 'an envelope is {"from": "...", "id": "...", "args": [{"text": "...", "type": "..."}]}'
# The parts of an empty message: some blocks, such as memory_read, need no text.
NO_PARTS = (msgspec.Raw(b'{"text":""}'),)
_TILDE = ord("~")
# The digest covers the "{" of the envelope, which stands before the mid in a live copy.
_OPENING = crc32(b"{")


def format_place(number: int) -> bytes:
    """Return the part of a mid between the input's ID and the digest."""
    return b".%d~" % number


# Formatting one costs as much as the rest of a mid.
PLACES = [format_place(number) for number in range(64)]


class _Envelope(msgspec.Struct, frozen=True, gc=False, rename={"sender": "from"}):
    sender: str | None = ""
    id: str | None = ""
    # Messages made by Memrelay have Parts here; the encoder takes either.
    args: tuple[msgspec.Raw, ...] | None = None


class _EmptyEnvelope(_Envelope, frozen=True, gc=False, forbid_unknown_fields=True):
    """An envelope without `args`. An object with other fields is no message."""

    args: None = None
    text: Literal["", None] = None
    mid: str = ""


class _KeptEnvelope(_Envelope, frozen=True, gc=False):
    """An envelope in a store. `vouched` is ignored in envelopes from outside."""

    vouched: tuple[str, ...] = ()


class _TracedEnvelope(_Envelope, frozen=True, gc=False):
    """A kept envelope with its trace context, or with the way in of its first message."""

    traceparent: str | msgspec.UnsetType = msgspec.UNSET
    vouched: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    via: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class _CutEnvelope(msgspec.Struct, frozen=True, gc=False, rename={"sender": "from"}):
    """An envelope of the best results: `left_out` others did not fit."""

    sender: str
    id: str
    args: tuple[Any, ...]
    left_out: int


_to_json = msgspec.json.Encoder().encode
_to_envelope = msgspec.json.Decoder(_Envelope).decode
_to_kept_envelope = msgspec.json.Decoder(_KeptEnvelope).decode
_to_traced_envelope = msgspec.json.Decoder(_TracedEnvelope).decode


def decode(data: bytes, max_bytes: int, vouched: tuple[str, ...] = ()) -> Message:
    """Return the message in an envelope. `vouched` are the IDENTITY_FIELDS that count in it.

    `max_bytes` limits the body that it was made of. Raises MessageTooLong if the envelope has more
    than `envelope_limit` of it, else MalformedMessage with the rule that it breaks.
    """
    if len(data) > max_bytes and len(data) > envelope_limit(max_bytes):
        raise MessageTooLong(
            f"the message has {len(data)} bytes; bus.max_message_bytes allows {max_bytes}, and "
            f"{envelope_limit(max_bytes)} with escaped characters"
        )
    try:
        if not data.isascii():
            # Parts are passed on unparsed, so invalid UTF-8 must be found here.
            data.decode()
        envelope = _to_envelope(data)
        args = envelope.args
        if args is None and not is_empty_message(msgspec.json.decode(data)):
            raise MalformedMessage(f"the envelope has no `args`, but other fields; {SHAPE}")
        args = args or NO_PARTS
        part = parse_part(args[0])
        for other in args[1:]:
            parse_part(other)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"the message is not an envelope: {error}; {SHAPE}") from error
    return Message(
        envelope.sender or "",
        envelope.id or "",
        part.text or "",
        part.type or PLAIN,
        part.timestamp,
        args,
        0,
        vouched,
    )


def is_empty_message(value: Any) -> bool:
    """Return whether a JSON value is an envelope without `args` and without a text.

    An object with an `id` alone, or with a field that no envelope has, is not.
    """
    try:
        empty = msgspec.convert(value, _EmptyEnvelope)
    except msgspec.ValidationError:
        return False
    return bool(empty.sender) or not empty.id


def encode(message: Message) -> bytes:
    """Return the envelope without `mid`, as a log stores it."""
    if message.left_out:
        return _to_json(_CutEnvelope(message.sender, message.id, message.args, message.left_out))
    return _to_json(_Envelope(message.sender, message.id, message.args))  # type: ignore[arg-type]


def encode_kept(message: Message, traceparent: str = "", via: Via = NO_VIA) -> bytes:
    """Return the envelope as a store keeps it until the message runs.

    `traceparent` is its trace context, for `find_traceparent`, and `via` is for `find_via`.
    """
    if traceparent or via is not NO_VIA:
        unset = msgspec.UNSET
        rest = traceparent or unset, message.vouched or unset, unset if via is NO_VIA else via
        return _to_json(_TracedEnvelope(message.sender, message.id, message.args, *rest))  # type: ignore[arg-type]
    if not message.vouched:
        return encode(message)
    return _to_json(
        _KeptEnvelope(message.sender, message.id, message.args, message.vouched)  # type: ignore[arg-type]
    )


def decode_kept(data: bytes) -> Message:
    """Return the message that `encode_kept` has encoded. Its length was checked on arrival."""
    has_vouched = b'"vouched":' in data
    return decode(data, len(data), _to_kept_envelope(data).vouched if has_vouched else ())


def find_traceparent(data: bytes) -> str:
    """Return the trace context that `encode_kept` has kept with a message, "" if there is none."""
    return (_to_traced_envelope(data).traceparent or "") if b'"traceparent":' in data else ""


def find_via(data: bytes) -> Via:
    """Return the way in that `encode_kept` has kept with a message."""
    values = _to_traced_envelope(data).via if b'"via":' in data else None
    return Via(*values) if values else NO_VIA


def make_mid(ident: str, number: int, data: bytes) -> str:
    """Return the mid of message `number` among those that the input `ident` led to."""
    return (b"%s.%d~%s" % (ident.encode(), number, digest(data))).decode()


def digest(data: bytes) -> bytes:
    """Return the digest of an envelope: 8 hexadecimal digits."""
    return hexlify(crc32(data).to_bytes(4))


def is_own_copy(payload: bytes) -> bool:
    """Return whether a channel message is a live copy that a worker published."""
    end = payload.find(b'"', 8, LONGEST_MID)
    if end < 18 or payload[end - 9] != _TILDE or payload[:8] != COPY_HEAD:
        return False
    return payload[end - 8 : end] == b"%08x" % crc32(payload[end + 2 :], _OPENING)
