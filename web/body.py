"""The body of a POST becomes an envelope: JSON first, whatever its Content-Type; what is no JSON is plain text."""
from typing import Any

import msgspec
import orjson
from aiohttp import web

from bus.codec import decode
from bus.errors import MalformedMessage
from bus.message import JSON, PLAIN, Part
from web.errors import BadRequest, TooLarge, Unprocessable

TOO_DEEP = "depth limit exceeded"   # orjson's words: 1024 levels, and 254 where they are written again


async def read_body(request: web.Request) -> bytes:
    """A body that came with its head is taken at once, at a fifth of the price. Raises aiohttp's 413."""
    content = request.content
    return content.read_nowait() if content.is_eof() else await request.read()


def to_envelope(body: bytes, *, sender: str, now_ms: int, max_bytes: int) -> bytes:
    """The envelope in JSON. Raises BadRequest, TooLarge or Unprocessable.

    An object with a list `args` is an envelope; one with a string `text` is its only part, with whatever else it holds; any
    other JSON is the text itself, of type application/json. Where nobody is named, `sender` said it.
    """
    try:
        envelope = orjson.dumps(_read(body, sender, now_ms))
    except orjson.JSONEncodeError as error:
        raise Unprocessable("the message is nested too deeply; write the deep part as a text") from error
    if len(envelope) > max_bytes:
        raise TooLarge(f"the message has {len(envelope)} bytes as an envelope; bus.max_message_bytes allows {max_bytes}")
    return envelope


def _read(body: bytes, sender: str, now_ms: int) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg == TOO_DEEP:
            raise Unprocessable("the JSON is nested too deeply") from error
        return _say(sender, "", {"text": _as_text(body), "type": PLAIN}, now_ms)
    if isinstance(value, dict) and isinstance(value.get("args"), list):
        return _as_envelope(value, sender)
    if isinstance(value, dict) and isinstance(value.get("text"), str) and _is_part(value):
        said_by, ident = value.pop("from", sender), value.pop("id", "")
        if isinstance(said_by, str) and isinstance(ident, str):
            return _say(said_by or sender, ident, value, now_ms)
        raise Unprocessable("`from` and `id` of a message are strings")
    return _say(sender, "", {"text": _as_text(body), "type": JSON}, now_ms)


def _as_envelope(value: dict[str, Any], sender: str) -> dict[str, Any]:
    """Checked here, so that the caller is told, and not the dead letters."""
    envelope = {"from": sender, "id": ""} | {name: held for name, held in value.items() if held not in (None, "")}
    try:
        written = orjson.dumps(envelope)
        decode(written, len(written))
    except MalformedMessage as error:
        raise Unprocessable(str(error)) from error
    return envelope


def _is_part(value: dict[str, Any]) -> bool:
    """Whether it can be read as a part; where not, its keys mean something else, and it is JSON like any other."""
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
