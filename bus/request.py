"""Request and reply: a message whose speaker awaits the end of what it leads to, or a call of an
operation."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Any, Self

import orjson
from msgspec.structs import replace

from bus.address import Address
from bus.backlog import IngressLimits
from bus.call import BUSY, LEAVING, NewCall
from bus.connection import Connection
from bus.entry import NewEntry
from bus.errors import BusBusy, BusError, BusUnavailable, CallFailed, NoAnswer, NoOwner
from bus.futures import fail
from bus.ingress import Ingress
from bus.line import Line
from bus.resp import pack
from bus.wire import ask_channel, reply_channel

FRESH_S = 0.25  # for how long a pipeline that had an owner is taken to have one
LOOK_S = 0.5  # for why nobody answered
Report = dict[str, Any]


class Requester:
    """Speaks to pipelines and awaits their owners' reports. Use it as an asynchronous context."""

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        """Two connections, opened when they are needed: one to speak, one on which the answers
        come."""
        self.ingress, self._database = Ingress(address, limits), address.database
        self._hearing = Line(address, self._hear, self._lost)
        self._token, self._numbers = secrets.token_hex(8), count()
        self._heard_by: Connection | None = None  # which hears all our reply channels
        self._waiting: dict[bytes, asyncio.Future[Report]] = {}
        self._owned: dict[str, float] = {}  # pipeline -> when it had an owner
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        await self._stack.enter_async_context(self.ingress)
        await self._stack.enter_async_context(self._hearing)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._stack.aclose()

    async def say(self, entry: NewEntry, timeout_s: float) -> Report:
        """Appends an entry and returns the owner's report once the cascade has settled.

        {"id", "settled": true, "results": [envelopes], "silent": [aliases], "errors": [texts]}; of
        a call {"answer"} in place
        of the results. Raises NoAnswer; the message is in the input all the same, and runs when its
        owner does. Otherwise
        raises what `Ingress.append` does.
        """
        ident = ""
        async with self._reply(entry.uid) as (channel, report):
            try:
                ident = await self.ingress.append(replace(entry, reply=channel))
                async with asyncio.timeout(timeout_s):
                    return await report
            except TimeoutError as error:
                paused = await self._pause_of(entry.uid)
                when = (
                    "the pipeline goes on, which is paused"
                    if paused
                    else "a worker serves the pipeline: is one running?"
                )
                raise NoAnswer(
                    f"pipeline {entry.uid} did not report message {ident} within {timeout_s:g} s; it is kept in the "
                    f"input and runs when {when}",
                    ident,
                    paused,
                ) from error

    async def call(self, call: NewCall, timeout_s: float) -> Report:
        """The owner's answer to a call: {"output": ...} or {"error": {"code", "detail"}}.

        Raises NoOwner where nobody serves the pipeline and BusBusy where too much waits: nothing
        was done. Raises NoAnswer:
        what changes something is kept in the input, and runs when its owner does. Raises CallFailed
        where it was given up,
        and otherwise what `Ingress.append` does.
        """
        try:
            async with asyncio.timeout(timeout_s):
                report = await (self._change(call) if call.mutates else self._ask(call, timeout_s))
        except TimeoutError as error:
            paused = await self._pause_of(call.uid)
            why = f"; it is paused: {paused}" if paused else ""
            raise NoAnswer(
                f"pipeline {call.uid} did not answer {call.op} within {timeout_s:g} s{why}",
                "",
                paused,
            ) from error
        answer = report.get("answer")
        if not isinstance(answer, dict):
            raise CallFailed(f"{call.op}: {(report.get('errors') or ['it was given up'])[0]}")
        refusal = answer.get("error", {})
        if refusal.get("code") == BUSY:
            raise BusBusy(refusal["detail"])
        if refusal.get("code") == LEAVING:
            raise NoOwner(refusal["detail"])
        return answer

    async def _change(self, call: NewCall) -> Report:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._owned.get(call.uid, float("-inf")) > FRESH_S:
            if not await self.ingress.listeners(ask_channel(call.uid)):
                raise _no_owner(call.uid)
            self._owned[call.uid] = now_s
        async with self._reply(call.uid) as (channel, report):
            await self.ingress.append(call.as_entry(channel))
            return await report

    async def _ask(self, call: NewCall, timeout_s: float) -> Report:
        async with self._reply(call.uid) as (channel, report):
            if not await self.ingress.publish(
                ask_channel(call.uid), call.as_question(channel, timeout_s, self._database)
            ):
                raise _no_owner(call.uid)
            return await report

    async def _pause_of(self, uid: str) -> str:
        """As far as it can be found out: who could not be answered is not kept waiting for that."""
        with suppress(BusError, TimeoutError):
            async with asyncio.timeout(LOOK_S):
                return await self.ingress.pause_of(uid)
        return ""

    @asynccontextmanager
    async def _reply(self, uid: str) -> AsyncIterator[tuple[str, asyncio.Future[Report]]]:
        """(a channel of its own, what comes there). Raises BusUnavailable and BusRefused."""
        connection = self._hearing.ready or await self._hearing.open()
        if connection is not self._heard_by:
            await connection.send(pack("PSUBSCRIBE", reply_channel("*", f"{self._token}.*")))
            self._heard_by = connection
        channel = reply_channel(uid, f"{self._token}.{next(self._numbers)}")
        report: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self._waiting[channel.encode()] = report
        try:
            yield channel, report
        finally:
            del self._waiting[channel.encode()]

    def _hear(self, channel: bytes, payload: bytes) -> None:
        report = self._waiting.get(channel)
        if report is not None and not report.done():
            report.set_result(orjson.loads(payload))

    def _lost(self) -> None:
        """Reports that were under way are lost; what was appended runs all the same."""
        for report in self._waiting.values():
            fail(report, BusUnavailable("the connection on which the report was awaited broke"))


def _no_owner(uid: str) -> NoOwner:
    return NoOwner(
        f"no worker serves pipeline {uid} now, and nothing was done; `memrelay status` tells, `memrelay worker` "
        "starts one"
    )
