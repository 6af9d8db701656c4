"""Request and reply: something said on a swarm whose speaker awaits the end of what it leads to."""
import asyncio
import secrets
from typing import Any, Self

import orjson

from bus.address import Address
from bus.connection import Connection, connect
from bus.errors import NoAnswer
from bus.resp import pack
from bus.wire import input_key, reply_channel


class Requester:
    """Speaks to pipelines and awaits their owners' reports. Use it as an asynchronous context."""

    def __init__(self, address: Address) -> None:
        """Two connections: one to speak, one on which the answers come."""
        self._address = address
        self._waiting: dict[bytes, asyncio.Future[dict[str, Any]]] = {}
        self._speaking: Connection
        self._hearing: Connection

    async def __aenter__(self) -> Self:
        """Connects. Raises BusUnavailable or BusRefused."""
        self._speaking = await connect(self._address)
        self._hearing = await connect(self._address, self._hear)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._speaking.close()
        await self._hearing.close()

    async def say(self, uid: str, swarm: str, data: bytes, timeout_s: float) -> dict[str, Any]:
        """Appends an envelope to a pipeline's input and returns the owner's report once the cascade has settled.

        {"id", "settled": true, "results": [envelopes], "silent": [aliases], "errors": [texts]}. Raises NoAnswer; the message
        is in the input all the same, and runs when its owner does.
        """
        channel = reply_channel(uid, secrets.token_hex(8))
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[channel.encode()] = answer
        try:
            await self._hearing.send(pack("SUBSCRIBE", channel))
            ident = await self._speaking.call("XADD", input_key(uid), "*", "swarm", swarm, "data", data, "reply", channel)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise NoAnswer(f"pipeline {uid} did not report message {ident.decode()} within {timeout_s:g} s; it is kept in the "
                           "input and runs when a worker serves the pipeline: is one running?") from error
        finally:
            del self._waiting[channel.encode()]
            self._hearing.send(pack("UNSUBSCRIBE", channel))

    async def announce(self, channel: str, text: str) -> int:
        """Publishes on a channel and returns how many heard it."""
        return int(await self._speaking.call("PUBLISH", channel, text))

    def _hear(self, channel: bytes, payload: bytes) -> None:
        answer = self._waiting.get(channel)
        if answer is not None and not answer.done():
            answer.set_result(orjson.loads(payload))
