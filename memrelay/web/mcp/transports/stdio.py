"""Serve one client over the standard streams, until its input ends."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Self

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memrelay.web.mcp.resource_handlers import add_subscribing
from memrelay.web.mcp.server import NAME, make_server
from memrelay.web.mcp.session import Session

# Bytes of a message from the client.
MAX_LINE_BYTES = 64 << 20
# A stream of updates, which ends only with its client.
LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"
NO_JSON = "the line is not JSON; send one JSON-RPC message per line, in UTF-8"
NO_REQUEST = 'this is no JSON-RPC request; send {"jsonrpc": "2.0", "id": ..., "method": ...}'
HALF_CHARACTER = (
    "the request has half of a surrogate pair, such as the first half of an emoji, and nothing was "
    "changed; send whole characters"
)
Send = Callable[[SessionMessage], Awaitable[None]]
MESSAGES = types.jsonrpc_message_adapter


async def serve_stdio(session: Session) -> None:
    """Serve a session over stdin and stdout."""
    server = make_server(session.toolset, version(NAME))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Session]:
        yield session

    server.lifespan = lifespan
    unanswered = _Unanswered()
    async with AsyncExitStack() as stack:
        subscriptions = await add_subscribing(server, session)
        if subscriptions is not None:
            await stack.enter_async_context(subscriptions)
        lines = await _open_stdin(unanswered)
        incoming, outgoing = await stack.enter_async_context(stdio_server(lines))  # type: ignore[arg-type]
        if lines is not None:
            lines.answer_with(outgoing.send)
        answers = _Outgoing(outgoing, unanswered)
        await server.run(incoming, answers, server.create_initialization_options())


class _Unanswered:
    """The requests that are not answered yet. The SDK cancels them when stdin ends."""

    def __init__(self) -> None:
        self._ids, self._is_empty = set[str](), asyncio.Event()  # IDs as texts
        self._is_empty.set()

    def note(self, message: types.JSONRPCMessage) -> None:
        """Note a message of the client. A request that the client cancels gets no answer."""
        if isinstance(message, types.JSONRPCRequest) and message.method != LISTEN:
            self._ids.add(str(message.id))
            self._is_empty.clear()
        elif isinstance(message, types.JSONRPCNotification) and message.method == CANCELLED:
            self._end(str((message.params or {}).get("requestId")))

    def note_answer(self, message: types.JSONRPCMessage) -> None:
        """Note a message that was sent to the client."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._end(str(message.id))

    def _end(self, ident: str) -> None:
        self._ids.discard(ident)
        if not self._ids:
            self._is_empty.set()

    async def wait(self) -> None:
        """Wait until all requests are answered."""
        await self._is_empty.wait()


class _Outgoing:
    """The SDK's stream to the client, which notes the answers."""

    def __init__(self, stream: Any, unanswered: _Unanswered) -> None:
        self._stream, self._unanswered = stream, unanswered

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message. The stream passes on what it has before it closes."""
        await self._stream.send(item)
        self._unanswered.note_answer(item.message)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Lines:
    """The lines of a pipe. The SDK reads stdin in a thread, which no signal could end."""

    def __init__(self, reader: asyncio.StreamReader, unanswered: _Unanswered) -> None:
        self._reader, self._unanswered = reader, unanswered
        self._send: asyncio.Future[Send] = asyncio.get_running_loop().create_future()

    def answer_with(self, send: Send) -> None:
        """Answer malformed requests, which the SDK would drop."""
        self._send.set_result(send)

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        while line := await self._reader.readline():
            text = line.decode(errors="replace")
            try:
                self._unanswered.note(MESSAGES.validate_json(text, by_name=False))
                return text
            except ValidationError:
                error = describe_malformed(text)
            if error is None:
                return text
            await (await self._send)(SessionMessage(error))
        await self._unanswered.wait()
        raise StopAsyncIteration


def describe_malformed(line: str) -> types.JSONRPCError | None:
    """Return the error of a line that is no JSON-RPC message; None for one that takes no answer."""
    code, text = types.INVALID_REQUEST, NO_REQUEST
    try:
        # Unlike the SDK's parser, it accepts half of a surrogate pair.
        message = json.loads(line)
    except (ValueError, RecursionError):
        message, code, text = None, types.PARSE_ERROR, NO_JSON
    if not line.strip() or (isinstance(message, dict) and "id" not in message):
        return None
    if _has_half_characters(message):
        code, text = types.INVALID_PARAMS, HALF_CHARACTER
    ident = message.get("id") if isinstance(message, dict) else None
    has_id = isinstance(ident, int | str) and not _has_half_characters(ident)
    data = types.ErrorData(code=code, message=text)
    return types.JSONRPCError(jsonrpc="2.0", id=ident if has_id else None, error=data)


def _has_half_characters(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


async def _open_stdin(unanswered: _Unanswered) -> _Lines | None:
    """Return the lines of stdin; None if it is a file, which the SDK must read."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return _Lines(reader, unanswered)
