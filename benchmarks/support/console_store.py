"""Fill a running pipeline with what the pages of the console show, over the bus."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from benchmarks.recall_latency import Texts
from benchmarks.restart import request_writes
from benchmarks.support.blocking import BlockingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.keys import input_key
from memrelay.bus.request import NewCall, Requester
from memrelay.memory.transfer import MAX_LINES
from memrelay.memory.transfer.export import Exported, Line

UID = "bench"
STORE = f"instances/{UID}/memories"
MESSAGES, MEMORIES, BOOKS, ARTICLES = 60, 60, 5, 60
# An envelope has at most 1 MiB by default, and an answer 8 MiB.
BOOK_BYTES, ARTICLE_BYTES = (1 << 20) - 8192, 18_000
TURNS_PER_THREAD = 200
TIMEOUT_S = 60.0


class Guids(NamedTuple):
    """A short record in the middle of a thread, and an edited one of almost 1 MiB."""

    note: str
    book: str


async def fill(socket: Path, records: int) -> Guids:
    """Fill the pipeline, the short records last."""
    await asyncio.to_thread(_send_messages, str(socket))
    texts = list(Texts().make_records(records))
    long = " ".join(texts[:20_000]) * (1 + BOOK_BYTES // 100_000)
    async with Requester(Address(path=str(socket))) as requester:
        for number in range(MEMORIES):
            memory = await _change(requester, "memories.create", name=f"Memory {number}")
            entry = {"memory_id": memory["id"], "content": f"fact {number}: {texts[0]}"}
            await _change(requester, "entries.create", **entry)
        books = [
            await _change(requester, "records.create", content=text, kind="book")
            for text in _cut(long, BOOK_BYTES, BOOKS)
        ]
        for text in _cut(long, ARTICLE_BYTES, ARTICLES):
            await _change(requester, "records.create", content=text, kind="article")
        lines = list(_make_lines(texts))
        for first in range(0, records, MAX_LINES):
            await _change(requester, "records.import", lines=lines[first : first + MAX_LINES])
        edited = {"guid": books[0]["guid"], "content": f"edited {books[0]['content'][7:]}"}
        await _change(requester, "records.update", **edited)
    return Guids(f"note-{records // 2 + TURNS_PER_THREAD // 2}", books[0]["guid"])


def _send_messages(socket: str) -> None:
    """Send messages on the chat and wait until they are processed."""
    connection = BlockingConnection(socket)
    request_writes(connection, [UID] * MESSAGES)
    while connection.send(pack("XLEN", input_key(UID)), 1):
        time.sleep(0.02)


def _cut(text: str, size: int, count: int) -> Iterator[str]:
    return (text[at * 1000 : at * 1000 + size] for at in range(count))


def _make_lines(texts: Sequence[str]) -> Iterator[str]:
    """Yield short records as lines of an export."""
    now_ms = time.time_ns() // 1_000_000
    for at, text in enumerate(texts):
        record = Exported(
            guid=f"note-{at}",
            number=1,
            scope=UID,
            kind=f"kind{at % 4}",
            source=f"speaker{at % 2}",
            tags=orjson.dumps([f"tag{at % 8}", f"tag{at % 3}"]).decode(),
            created_at=now_ms,
            updated_at=now_ms,
            thread=f"thread{at // TURNS_PER_THREAD}",
            seq=at % TURNS_PER_THREAD,
            content=text,
        )
        yield msgspec.json.encode(Line(record=record)).decode()


async def _change(requester: Requester, operation: str, **given: Any) -> Any:
    """Call an operation that changes data and return its output."""
    call = NewCall(UID, operation, orjson.dumps(given), True, actor="bench")
    answer = await requester.call(call, TIMEOUT_S)
    assert "output" in answer, answer
    return answer["output"]
