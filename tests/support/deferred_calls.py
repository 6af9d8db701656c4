"""Blocks with deferred calls, their executors, and the HTTP server that they ask."""

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import aiohttp

from memrelay.blocks.async_call import AsyncCall
from memrelay.blocks.contract import BlockArgs, Call, DeferredCall, RunningCall, Transient
from memrelay.bus.message import Message

AGAIN = "again "  # a text with it makes a block ask a second time with the answer


def asks(call: Call, args: BlockArgs) -> Message | DeferredCall:
    """Ask for `URL TEXT` and answer with the text of the service. A text may end with an order:
    `tea@1`.
    """
    got = call.got
    if got is None:
        url, _, text = call.text.partition(" ")
        return DeferredCall({"url": url, "text": text}, order=text.partition("@")[2])
    if got.error:
        return call.error(got.error)
    url, text = got.value["url"], got.value["text"]
    if "crash the block" in text and count_up(call.text.rpartition(" ")[2]) <= 9:
        os.kill(os.getpid(), signal.SIGKILL)
    if "not now" in text and count_up(text.rpartition(" ")[2]) <= 2:
        raise Transient("it is not the time", after_s=0.01)
    if text.startswith(AGAIN):
        return DeferredCall({"url": url, "text": text.removeprefix(AGAIN)})
    return call.reply(text)


def asks_aside(call: Call, args: BlockArgs) -> Message | DeferredCall:
    """Ask for what a file contains, `URL TEXT@ORDER`, and fail at first. The message names it."""
    if call.got is None:
        url, _, text = Path(call.text).read_text().partition(" ")
        return DeferredCall({"url": url, "text": text}, order=text.partition("@")[2])
    if count_up(f"{call.text}.tries") <= 1:
        raise Transient("it is not the time")
    return call.reply(call.got.error or call.got.value["text"])


async def fetch(request: dict[str, str], deferred_call: RunningCall) -> dict[str, str]:
    """Return the answer of the service."""
    url, text = request["url"], request["text"]
    if "crash the worker" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if "raise" in text:
        raise RuntimeError("the service has closed")
    return {"url": url, "text": await _get(url, text, deferred_call.id)}


async def refuse(request: object, deferred_call: RunningCall) -> object:
    """Return a result that is no JSON value."""
    return {refuse}


def tells_deferred_call(call: Call, args: BlockArgs) -> Message | DeferredCall:
    """Answer with the ids of the deferred call: as the block expects it, runs it and resumes it."""
    if call.got is None:
        return DeferredCall(call.next_deferred_call_id)
    return call.reply_json([*call.got.value, call.deferred_call_id])


async def write_actor(expected: str, deferred_call: RunningCall) -> list[str]:
    """Store a record with the actor of the deferred call. Return the expected and the actual id."""
    content = {"content": f"{deferred_call.actor} {deferred_call.may_call_private}"}
    await deferred_call.operate("records.create", content, key="note")
    return [expected, deferred_call.id]


class UrlArgs(BlockArgs):
    """The address of the service, for calls of a timer, which have no text."""

    url: str = ""


async def fetches(call: AsyncCall, args: UrlArgs) -> Message:
    """Answer with what the service says about the text."""
    url, _, text = call.text.partition(" ")
    url = args.url or url
    if "not now" in text and count_up(text.rpartition(" ")[2]) <= 2:
        raise Transient("it is not the time", after_s=0.01)
    return call.reply(await _get(url, text, call.deferred_call_id))


async def notes(call: AsyncCall, args: BlockArgs) -> Message:
    """Store a note, then ask the service, so that a crash in between repeats the note."""
    url, _, text = call.text.partition(" ")
    output = await call.operate("records.create", {"content": text})
    await _get(url, text, call.deferred_call_id)
    return call.reply_json(output)


async def _get(url: str, text: str, deferred_call_id: str) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            url, params={"q": text}, headers={"Idempotency-Key": deferred_call_id}
        ) as answer,
    ):
        return await answer.text()


def count_up(file: str) -> int:
    """Return how often this was called with that file."""
    with Path(file).open("ab") as counter:
        counter.write(b".")
        return counter.tell()


class Service(ThreadingHTTPServer):
    """Answers with the text of the query, on a free loopback port. Use it as a context.

    With `body`, it answers with that. Answers wait while `hold` is cleared.
    """

    daemon_threads = True

    def __init__(self, body: bytes = b"", kind: str = "text/plain") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body, self.kind = body, kind
        self.asked: list[tuple[str, str]] = []  # (idempotency key, text)
        self.hold = threading.Event()
        self.hold.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    @property
    def texts(self) -> list[str]:
        """Return the texts of all requests."""
        return [text for _, text in self.asked]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        text = unquote(self.path.partition("?q=")[2].replace("+", " "))
        self.server.asked.append((self.headers["Idempotency-Key"], text))
        self.server.hold.wait(60)
        body = self.server.body or text.encode()
        self.send_response(200)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
