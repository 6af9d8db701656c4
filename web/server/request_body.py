"""A request's body, read within bounds: how long it is, how long it takes, in how many pieces it
comes."""

import asyncio
from typing import Any

import msgspec
import orjson
from aiohttp import hdrs, web

from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.message import JSON, PLAIN, Part
from memrelay.pipelines.json_text import BOM, is_deeper, opens_more, too_many_keys
from memrelay.web.server.connection_limits import Traffic, before_sweep, door_of
from memrelay.web.server.errors import (
    BadRequest,
    TooLarge,
    TooSlow,
    Unavailable,
    Unprocessable,
    WrongType,
)
from memrelay.web.server.services import WebOptions, services_of

MOST_CHUNKS = (
    10_000  # of a body with Transfer-Encoding: chunked; each costs as much as a kilobyte does
)
MOST_UNDER_WAY = 64 << 20  # bytes of bodies that are not whole yet, of all requests together


async def read_json_body(request: web.Request) -> bytes:
    """The body without the byte order mark that some programs begin JSON with. Raises as
    `read_body` does."""
    return (await read_body(request)).removeprefix(BOM)


async def read_body(request: web.Request) -> bytes:
    """A body that came with its head is taken at once, at a fifth of the price.

    Raises TooLarge, TooSlow, WrongType and Unavailable.
    """
    if hdrs.CONTENT_ENCODING in request.headers:
        _refuse_encoded(request)
    content = request.content
    return content.read_nowait() if content.is_eof() else await _receive(request)


def _refuse_encoded(request: web.Request) -> None:
    """Nothing is unpacked here, so that nothing can be a bomb."""
    encoding = request.headers[hdrs.CONTENT_ENCODING]
    if encoding.strip().lower() != "identity":
        raise WrongType(
            f"bodies are taken as they are, without Content-Encoding; this has {encoding[:50]!r}"
        )


async def _receive(request: web.Request) -> bytes:
    """A body of which something is still to come."""
    options = services_of(request).options
    if (request.content_length or 0) > options.message_bytes:
        raise TooLarge(
            f"the body has {request.content_length} bytes; bus.max_message_bytes allows {options.message_bytes}"
        )
    try:
        async with asyncio.timeout(before_sweep(options.read_timeout_s)):
            return await _collect(request, options.message_bytes, services_of(request).traffic)
    except TimeoutError as error:
        door = door_of(request)
        if door is not None:
            door.is_last = True
        raise TooSlow(
            f"the body was not whole within {options.read_timeout_s:g} s (web.read_timeout_s)"
        ) from error


async def _collect(request: web.Request, most: int, traffic: Traffic) -> bytes:
    body, chunks = bytearray(), 0
    try:
        async for piece, ends_chunk in request.content.iter_chunks():
            body += piece
            traffic.under_way += len(piece)
            chunks += ends_chunk
            if len(body) > most:
                raise TooLarge(f"the body is longer than bus.max_message_bytes allows ({most})")
            if chunks > MOST_CHUNKS:
                raise TooLarge(
                    f"the body comes in more than {MOST_CHUNKS} chunks; send larger ones, or a Content-Length"
                )
            if traffic.under_way > MOST_UNDER_WAY:
                raise Unavailable("too many long bodies are under way; come again in a second")
    finally:
        traffic.under_way -= len(body)
    return bytes(body)


# The body of a POST becomes an envelope: JSON first, whatever its Content-Type; what is no JSON is
# plain text.

TOO_DEEP = (
    "depth limit exceeded"  # orjson's words: 1024 levels, and 254 where they are written again
)
REMEDY = "send it as the `text` of a message"


def to_envelope(body: bytes, *, sender: str, now_ms: int, bounds: WebOptions) -> bytes:
    """The envelope in JSON. Raises BadRequest, TooLarge or Unprocessable.

    An object with a list `args` is an envelope; one with a string `text` is its only part, with
    whatever else it holds; any
    other JSON is the text itself, of type application/json. Where nobody is named, `sender` said
    it.
    """
    try:
        envelope = orjson.dumps(_read(body.removeprefix(BOM), sender, now_ms, bounds))
    except orjson.JSONEncodeError as error:
        raise Unprocessable(
            "the message is nested too deeply; write the deep part as a text"
        ) from error
    if len(envelope) > bounds.message_bytes:
        raise TooLarge(
            f"the message has {len(envelope)} bytes as an envelope; bus.max_message_bytes allows "
            f"{bounds.message_bytes}"
        )
    return envelope


def _read(body: bytes, sender: str, now_ms: int, bounds: WebOptions) -> dict[str, Any]:
    if too_many_keys(body, bounds.json_keys):
        raise Unprocessable(
            f"the JSON has more than {bounds.json_keys} keys, which is what web.max_json_keys allows; {REMEDY}"
        )
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg == TOO_DEEP:
            raise _too_deep(bounds) from error
        return _say(sender, "", {"text": _as_text(body), "type": PLAIN}, now_ms)
    if opens_more(body, bounds.json_depth) and is_deeper(value, bounds.json_depth):
        raise _too_deep(bounds)
    if isinstance(value, dict) and isinstance(value.get("args"), list):
        return _as_envelope(value, sender)
    if isinstance(value, dict) and isinstance(value.get("text"), str) and _is_part(value):
        said_by, ident = value.pop("from", None), value.pop("id", None)
        if isinstance(said_by, str | None) and isinstance(ident, str | None):
            return _say(said_by or sender, ident or "", value, now_ms)
        raise Unprocessable("`from` and `id` of a message are strings")
    return _say(sender, "", {"text": _as_text(body), "type": JSON}, now_ms)


def _too_deep(bounds: WebOptions) -> Unprocessable:
    rule = f"the JSON is nested deeper than {bounds.json_depth}, which is what web.max_json_depth allows"
    return Unprocessable(f"{rule}; {REMEDY}")


def _as_envelope(value: dict[str, Any], sender: str) -> dict[str, Any]:
    """Checked here, so that the caller is told, and not the dead letters."""
    envelope = {"from": sender, "id": ""} | {
        name: held for name, held in value.items() if held not in (None, "")
    }
    try:
        written = orjson.dumps(envelope)
        decode(written, len(written))
    except MalformedMessage as error:
        raise Unprocessable(str(error)) from error
    return envelope


def _is_part(value: dict[str, Any]) -> bool:
    """Whether it can be read as a part; where not, its keys mean something else, and it is JSON
    like any other."""
    try:
        msgspec.convert(value, Part)
    except msgspec.ValidationError:
        return False
    return True


def _say(sender: str, ident: str, part: dict[str, Any], now_ms: int) -> dict[str, Any]:
    filled = {"username": sender, "timestamp": now_ms, "type": PLAIN} | part
    return {"from": sender, "id": ident, "args": [filled]}


def _as_text(body: bytes) -> str:
    try:
        return body.decode().strip()
    except UnicodeDecodeError as error:
        raise BadRequest("the body is neither JSON nor text in UTF-8") from error
