"""Reading request bodies within limits, and converting message bodies to envelopes."""

import asyncio
import zlib
from typing import Any

import msgspec
import orjson
from aiohttp import hdrs, web

from memrelay.bus.codec import SHAPE, decode, is_empty_message
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.message import JSON, PLAIN, Part, envelope_limit
from memrelay.pipelines.json_text import BOM, is_deeper, opens_more, too_many_keys
from memrelay.web.server.connection_limits import (
    TRAFFIC,
    Traffic,
    get_connection,
    get_holder,
    shorten_by_sweep,
)
from memrelay.web.server.errors import (
    BadRequest,
    RequestTimeout,
    TooLarge,
    Unavailable,
    Unprocessable,
    UnsupportedMediaType,
)
from memrelay.web.server.options import OPTIONS, WebOptions

# Chunks of one body with Transfer-Encoding: chunked. Parsing a chunk costs as much as 1 KB does.
MAX_CHUNKS = 10_000
# Bytes of incomplete bodies, over all requests.
MAX_PENDING_BYTES = 64 << 20
# orjson's error text. Its limits are 1024 levels for reading and 254 for writing.
ORJSON_TOO_DEEP = "depth limit exceeded"
MAX_GZIP_RATIO = 100
# Bytes that the body of a request for a webhook may have.
WEBHOOK_BYTES = web.RequestKey("webhook_bytes", int)
SEND_AS_TEXT = "send it as the `text` of a message"


async def read_json_body(request: web.Request) -> bytes:
    """Read the body without a leading byte order mark. Raises as `read_body` does."""
    return (await read_body(request)).removeprefix(BOM)


async def read_body(request: web.Request, max_bytes: int | None = None) -> bytes:
    """Read the whole body. A body that arrived together with its head takes a fast path.

    A body that arrives later may have `max_bytes`, by default bus.max_message_bytes. Raises
    TooLarge, RequestTimeout, UnsupportedMediaType, and Unavailable.
    """
    content, webhook_bytes = request.content, request.get(WEBHOOK_BYTES)
    max_bytes = max_bytes or webhook_bytes
    is_encoded = hdrs.CONTENT_ENCODING in request.headers
    is_gzip = is_encoded and _check_encoding(request, webhook_bytes is not None)
    body = content.read_nowait() if content.is_eof() else await _receive(request, max_bytes)
    if is_gzip:
        return _expand(body, max_bytes or request.app[OPTIONS].message_bytes)
    return body


def accept_webhook_body(request: web.Request, max_bytes: int) -> None:
    """Let `read_body` accept a body of `max_bytes`, also compressed with gzip."""
    request[WEBHOOK_BYTES] = max_bytes


def _check_encoding(request: web.Request, takes_gzip: bool) -> bool:
    """Return whether a body is compressed with gzip. Raises UnsupportedMediaType."""
    encoding = request.headers[hdrs.CONTENT_ENCODING].strip().lower()
    if takes_gzip and encoding in ("gzip", "x-gzip"):
        return True
    if encoding != "identity":
        instead = "use gzip, or send the body" if takes_gzip else "send the body"
        raise UnsupportedMediaType(
            f"Content-Encoding {encoding[:50]!r} is not supported; {instead} uncompressed"
        )
    return False


def _expand(body: bytes, max_bytes: int) -> bytes:
    """Return the content of a gzip body. It stops at the limits, however much would follow."""
    most = min(max_bytes, MAX_GZIP_RATIO * len(body))
    expander = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = expander.decompress(body, most + 1)
    except zlib.error as error:
        raise BadRequest("the body is not gzip, as its Content-Encoding says") from error
    if len(content) > most:
        raise TooLarge(
            f"the body has more than {most} bytes after expansion; at most {max_bytes} bytes and "
            f"{MAX_GZIP_RATIO} times its compressed size are accepted"
        )
    if not expander.eof or expander.unused_data:
        raise BadRequest("the gzip body is incomplete, or something follows it")
    return content


async def _receive(request: web.Request, max_bytes: int | None) -> bytes:
    options = request.app[OPTIONS]
    max_bytes = max_bytes or options.message_bytes
    if (request.content_length or 0) > max_bytes:
        limit = _name_limit(request)
        raise TooLarge(f"the body has {request.content_length} bytes; {limit} allows {max_bytes}")
    try:
        async with asyncio.timeout(shorten_by_sweep(options.read_timeout_s)):
            return await _collect(request, max_bytes)
    except TimeoutError as error:
        connection = get_connection(request)
        if connection is not None:
            connection.is_last = True
        raise RequestTimeout(
            f"the body did not arrive within {options.read_timeout_s:g} s (web.read_timeout_s)"
        ) from error


def _name_limit(request: web.Request) -> str:
    return "web.webhook_bytes" if WEBHOOK_BYTES in request else "bus.max_message_bytes"


async def _collect(request: web.Request, max_bytes: int) -> bytes:
    body, chunks = bytearray(), 0
    traffic, holder = request.app[TRAFFIC], get_holder(request)
    share = request.app[OPTIONS].caller_share if holder else 1.0
    try:
        async for piece, ends_chunk in request.content.iter_chunks():
            body += piece
            traffic.add_pending(holder, len(piece))
            chunks += ends_chunk
            if len(body) > max_bytes:
                raise TooLarge(f"the body is longer than {_name_limit(request)} ({max_bytes})")
            if chunks > MAX_CHUNKS:
                raise TooLarge(
                    f"the body has more than {MAX_CHUNKS} chunks; send larger chunks, or a "
                    "Content-Length"
                )
            # One body of a webhook may be longer than the share.
            own_bytes = len(body) if WEBHOOK_BYTES in request else 0
            _check_pending(traffic, holder, max(share * MAX_PENDING_BYTES, own_bytes))
    finally:
        traffic.add_pending(holder, -len(body))
    return bytes(body)


def _check_pending(traffic: Traffic, holder: str, share_bytes: float) -> None:
    """Raise Unavailable if too many bytes of bodies are being received, in total or of a caller."""
    if traffic.pending_bytes > MAX_PENDING_BYTES:
        raise Unavailable("too many large bodies are being received; retry in a second")
    if traffic.pending_by_holder[holder] > share_bytes:
        raise Unavailable(
            "too many large bodies of this caller are being received (web.caller_share); send "
            "fewer at once, and retry in a second"
        )


def to_envelope(body: bytes, *, sender: str, now_ms: int, limits: WebOptions) -> bytes:
    """Convert the body of a POST to an envelope in JSON.

    The Content-Type does not matter:

    - An object with a list `args` is an envelope: each element has a string `text`.
    - An object with a string `text` becomes the only part, with all its other fields.
    - `null`, and an object without other fields than those of an envelope, neither with a part nor
      with a text, is an empty message. An `id` alone does not make an envelope.
    - Other JSON becomes the text of a part of type application/json.
    - Anything else becomes plain text.

    `sender` is the author unless the body names one.
    Raises BadRequest, TooLarge, and Unprocessable.
    """
    if len(body) > limits.message_bytes:
        raise TooLarge(
            f"the body has {len(body)} bytes; bus.max_message_bytes allows {limits.message_bytes}"
        )
    try:
        envelope = orjson.dumps(_parse(body.removeprefix(BOM), sender, now_ms, limits))
    except orjson.JSONEncodeError as error:
        raise Unprocessable("the message is nested too deeply; send the deep part as text") from (
            error
        )
    if len(envelope) > envelope_limit(limits.message_bytes):
        raise TooLarge(
            f"the envelope has {len(envelope)} bytes, since quotes and control characters are "
            f"escaped; at most {envelope_limit(limits.message_bytes)} are possible"
        )
    return envelope


def _parse(body: bytes, sender: str, now_ms: int, limits: WebOptions) -> dict[str, Any]:
    if too_many_keys(body, limits.json_keys):
        raise Unprocessable(
            f"the JSON has more than {limits.json_keys} keys (web.max_json_keys); {SEND_AS_TEXT}"
        )
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg == ORJSON_TOO_DEEP:
            raise _too_deep(limits) from error
        return _wrap(sender, "", {"text": _decode_text(body), "type": PLAIN}, now_ms)
    if opens_more(body, limits.json_depth) and is_deeper(value, limits.json_depth):
        raise _too_deep(limits)
    if isinstance(value, dict) and isinstance(value.get("args"), list):
        return complete_envelope(value, sender)
    if isinstance(value, dict) and isinstance(value.get("text"), str) and is_part(value):
        check_names(value)
        author, message_id = value.pop("from", None), value.pop("id", None)
        return _wrap(author or sender, message_id or "", value, now_ms)
    if value is None:
        return _wrap(sender, "", {"text": ""}, now_ms)
    if is_empty_message(value):
        return _wrap(value.get("from") or sender, value.get("id") or "", {"text": ""}, now_ms)
    return _wrap(sender, "", {"text": _decode_text(body), "type": JSON}, now_ms)


def _too_deep(limits: WebOptions) -> Unprocessable:
    return Unprocessable(
        f"the JSON is nested deeper than {limits.json_depth} levels (web.max_json_depth); "
        f"{SEND_AS_TEXT}"
    )


def complete_envelope(value: dict[str, Any], sender: str) -> dict[str, Any]:
    """Fill in defaults and validate, so that a bad envelope is an error and not a dead letter.

    Raises Unprocessable.
    """
    _check_args(value["args"])
    envelope = {"from": sender, "id": ""} | {
        name: field for name, field in value.items() if field not in (None, "")
    }
    try:
        encoded = orjson.dumps(envelope)
        decode(encoded, len(encoded))
    except MalformedMessage as error:
        raise Unprocessable(str(error)) from error
    return envelope


def _check_args(args: list[Any]) -> None:
    """Raise Unprocessable unless each of at least one element has a string `text`."""
    if not args:
        raise Unprocessable(f"`args` is empty; {SHAPE}. For a message without a text, leave it out")
    for index, part in enumerate(args):
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise Unprocessable(f"`args[{index}]` is no object with a string `text`; {SHAPE}")


def check_names(message: dict[str, Any]) -> None:
    """Raise Unprocessable if `from` or `id` of a message with a text is no string."""
    for name in ("from", "id"):
        if not isinstance(message.get(name), str | None):
            raise Unprocessable(f"`{name}` of a message must be a string")


def is_part(value: dict[str, Any]) -> bool:
    """Return whether an object with `text` fits a message part. If not, it is ordinary JSON."""
    try:
        msgspec.convert(value, Part)
    except msgspec.ValidationError:
        return False
    return True


def _wrap(author: str, message_id: str, part: dict[str, Any], now_ms: int) -> dict[str, Any]:
    completed = {"username": author, "timestamp": now_ms, "type": PLAIN} | part
    return {"from": author, "id": message_id, "args": [completed]}


def _decode_text(body: bytes) -> str:
    try:
        return body.decode().strip()
    except UnicodeDecodeError as error:
        raise BadRequest("the body is neither JSON nor UTF-8 text") from error
