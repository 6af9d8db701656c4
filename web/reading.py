"""A request's body, read within bounds: how long it is, how long it takes, in how many pieces it
comes."""

import asyncio

from aiohttp import hdrs, web

from pipelines.json_text import BOM
from web.door import before_sweep, door_of
from web.errors import TooLarge, TooSlow, Unavailable, WrongType
from web.parts import parts_of
from web.traffic import Traffic

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
    options = parts_of(request).options
    if (request.content_length or 0) > options.message_bytes:
        raise TooLarge(
            f"the body has {request.content_length} bytes; bus.max_message_bytes allows {options.message_bytes}"
        )
    try:
        async with asyncio.timeout(before_sweep(options.read_timeout_s)):
            return await _collect(request, options.message_bytes, parts_of(request).traffic)
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
