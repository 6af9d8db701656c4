"""Request and reply: something said to a pipeline whose speaker awaits the end of what it leads to."""
import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Any, Self

import orjson
from msgspec.structs import replace

from bus.address import Address
from bus.backlog import IngressLimits
from bus.entry import NewEntry
from bus.errors import BusUnavailable, NoAnswer
from bus.futures import fail
from bus.ingress import Ingress
from bus.line import Line
from bus.resp import pack
from bus.wire import reply_channel


class Requester:
    """Speaks to pipelines and awaits their owners' reports. Use it as an asynchronous context."""

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        """Two connections, opened when they are needed: one to speak, one on which the answers come."""
        self.ingress = Ingress(address, limits)
        self._hearing = Line(address, self._hear, self._lost)
        self._waiting: dict[bytes, asyncio.Future[dict[str, Any]]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        await self._stack.enter_async_context(self.ingress)
        await self._stack.enter_async_context(self._hearing)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._stack.aclose()

    async def say(self, entry: NewEntry, timeout_s: float) -> dict[str, Any]:
        """Appends an entry and returns the owner's report once the cascade has settled.

        {"id", "settled": true, "results": [envelopes], "silent": [aliases], "errors": [texts]}. Raises NoAnswer; the message
        is in the input all the same, and runs when its owner does. Otherwise raises what `Ingress.append` does.
        """
        channel = reply_channel(entry.uid, secrets.token_hex(8))
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[channel.encode()] = answer
        try:
            await (await self._hearing.open()).send(pack("SUBSCRIBE", channel))
            ident = await self.ingress.append(replace(entry, reply=channel))
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise NoAnswer(f"pipeline {entry.uid} did not report message {ident} within {timeout_s:g} s; it is kept in the "
                           "input and runs when a worker serves the pipeline: is one running?", ident) from error
        finally:
            del self._waiting[channel.encode()]
            if self._hearing.ready is not None:
                self._hearing.ready.send(pack("UNSUBSCRIBE", channel))

    def _hear(self, channel: bytes, payload: bytes) -> None:
        answer = self._waiting.get(channel)
        if answer is not None and not answer.done():
            answer.set_result(orjson.loads(payload))

    def _lost(self) -> None:
        """Reports that were under way are lost; what was appended runs all the same."""
        for answer in self._waiting.values():
            fail(answer, BusUnavailable("the connection on which the report was awaited broke"))
