"""The committed responses of a turn: writes on a thread that only this turn uses.

Each response with tool calls is committed before its tools run. The first commit of a step wins, so
a turn that runs again after a crash gets the responses of its first run.
"""

import asyncio
import zlib
from base64 import b64decode, b64encode
from types import TracebackType
from typing import Any, Self

import orjson

from memrelay.agents.calls import Calls

Json = dict[str, Any]
CHECKPOINT, CHANNEL, TYPE = "turn", "response", "json"
PLAIN, COMPRESSED = b"\0", b"\1"
COMPRESSED_FROM = 1024  # bytes


class Responses:
    """The responses of one turn by step. Use it as an asynchronous context, which begins to read
    what an earlier run of the turn has committed.
    """

    def __init__(self, calls: Calls, agent: str, thread: str) -> None:
        self._calls, self._place = calls, {"agent": agent, "thread": thread, "id": CHECKPOINT}

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Read no further."""
        self._reading.cancel()

    async def find(self, step: str) -> Json | None:
        """Return the response of a step, None if it is not committed. Raises OperationFailed."""
        return (await self._reading).get(step)

    async def _read(self) -> dict[str, Json]:
        data, total, writes = b"", 1, []
        while len(data) < total:
            query = self._place | {"at": len(data)}
            found = await self._calls.arun("checkpoints.get", query)
            data, total, writes = data + b64decode(found["data"]), found["total"], found["writes"]
        at, found = 0, {}
        for write in writes:
            found[write["task"]] = _unpack(data[at : at + write["size"]])
            at += write["size"]
        return found

    async def commit(self, step: str, response: Json) -> Json:
        """Commit the response of a step. Return the one that counts."""
        data = _pack(response)
        write = {"idx": 0, "channel": CHANNEL, "type": TYPE, "size": len(data)}
        given = self._place | {
            "task": step,
            "writes": [write],
            "data": b64encode(data).decode(),
        }
        key = f"response/{step}/{zlib.crc32(data):08x}"
        written = await self._calls.arun("checkpoints.write", given, key=key)
        if written["added"]:
            return response
        # Another worker, which has lost the pipeline since, was faster.
        return (await self._read())[step]


def _pack(response: Json) -> bytes:
    data = orjson.dumps(response)
    if len(data) < COMPRESSED_FROM:
        return PLAIN + data
    return COMPRESSED + zlib.compress(data)


def _unpack(value: bytes) -> Json:
    data = value[1:]
    found: Json = orjson.loads(zlib.decompress(data) if value[:1] == COMPRESSED else data)
    return found
