"""Request and reply: a message whose speaker awaits the end of what it leads to, or a call of an
operation."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Any, Self

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import replace

from memrelay.bus.client.connection import Connection, fail
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import (
    BusBusy,
    BusError,
    BusUnavailable,
    CallFailed,
    MalformedMessage,
    NoAnswer,
    NoOwner,
)
from memrelay.bus.keys import ask_channel, reply_channel
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress, IngressLimits

# A call of one of memory's operations, as it travels to the pipeline's owner and back.
#
# What changes something is an entry of the input, and what does not a message on the channel
# `pipeline:{<uid>}:ask`. Either is
# answered on the caller's reply channel: `{"answer": {"output": ...}}`, or `{"answer": {"error":
# {"code", "detail"}}}`.

REFUSED = "refused"  # a rule was broken; nothing was changed
KEY_REUSED = "key_reused"  # the caller's key stands for another call; nothing was changed
BUSY = "busy"  # the owner has too much to answer
UNAVAILABLE = "unavailable"  # the store cannot be used now
LEAVING = "leaving"  # the owner lets the pipeline go
BROKEN = "broken"  # a fault of ours
SHAPE = 'a question is {"op": "...", "input": {...}, "reply": "reply:{...", "within_ms": ...}'


class NewCall(Struct, frozen=True):
    """A call on its way out."""

    uid: str
    op: str
    data: bytes  # the input as JSON
    mutates: bool
    store: str = ""  # the memory_id; "" for the pipeline's first
    actor: str = ""
    producer_id: str = (
        ""  # the caller's own key: the same call again has no second effect, another one is refused
    )

    def at(self, uid: str) -> "NewCall":
        """The same of another pipeline."""
        return replace(self, uid=uid)

    def as_entry(self, reply: str) -> NewEntry:
        """For the input."""
        return NewEntry(
            self.uid,
            self.data,
            op=self.op,
            store=self.store,
            actor=self.actor,
            producer_id=self.producer_id,
            reply=reply,
        )

    def as_question(self, reply: str, within_s: float, database: int) -> bytes:
        """For the channel; `database` is that of the caller's connection."""
        return _to_json(
            Question(
                self.op,
                reply,
                Raw(self.data),
                self.store,
                self.actor,
                int(within_s * 1000),
                database,
            )
        )


class Question(Struct, frozen=True):
    """A call that changes nothing, as the owner hears it."""

    op: str
    reply: str
    input: Raw
    store: str = ""
    actor: str = ""
    within_ms: int = 60_000  # after which nobody awaits the answer any more
    database: int | None = (
        # of the server, which has its channels in common for all: owners in others do not answer
        None
    )


def read_question(payload: bytes, uid: str) -> Question:
    """What was published on that pipeline's channel. Raises MalformedMessage, also where another's
    is to hear the answer."""
    try:
        question = _to_question(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage(f"{error}; {SHAPE}") from error
    own = reply_channel(uid, "")
    if not question.reply.startswith(own):
        raise MalformedMessage(f"the channel for the answer must begin with {own}; {SHAPE}")
    return question


def error_answer(code: str, detail: str) -> bytes:
    """An answer that says what is wrong."""
    return _to_json({"error": {"code": code, "detail": detail}})


def output_answer(answer: bytes) -> bytes:
    """What is published on the reply channel where there is nothing to tell beside the answer."""
    return _to_json({"answer": Raw(answer)})


_to_json = msgspec.json.Encoder().encode
_to_question = msgspec.json.Decoder(Question).decode


FRESH_S = 0.25  # for how long a pipeline that had an owner is taken to have one
LOOK_S = 0.5  # for why nobody answered
Report = dict[str, Any]


class Requester:
    """Speaks to pipelines and awaits their owners' reports. Use it as an asynchronous context."""

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        """Two connections, opened when they are needed: one to speak, one on which the answers
        come."""
        self.ingress, self._database = Ingress(address, limits), address.database
        self._hearing = ReconnectingConnection(address, self._hear, self._lost)
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
