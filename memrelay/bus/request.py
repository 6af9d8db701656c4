"""Requests and replies: a message whose sender awaits its results, or a call of an operation."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Annotated, Any, Self

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from memrelay.bus.client.connection import fail
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import (
    BusBusy,
    BusError,
    BusUnavailable,
    CallFailed,
    MalformedMessage,
    MessageTooLong,
    NoAnswer,
    NoOwner,
)
from memrelay.bus.keys import ask_channel, reply_channel, reply_pattern
from memrelay.bus.malformed import MALFORMED, REPLY
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress, IngressLimits
from memrelay.bus.streams.via import NO_VIA, Via

# Codes of error answers.
REFUSED = "refused"  # a rule was broken; nothing was changed
KEY_REUSED = "key_reused"  # the idempotency key belongs to another call; nothing was changed
BUSY = "busy"  # too many calls wait for the owner
UNAVAILABLE = "unavailable"  # the store cannot be used now
LEAVING = "leaving"  # the owner is releasing the pipeline
SNAPSHOT_PENDING = "snapshot_pending"  # the state of a past time is being made
BROKEN = "broken"  # a defect in Memrelay

# The member of an answer with the state that was read, and the field of a question.
AS_OF = "as_of"
# The member of an answer with the receipt that the call has left.
RECEIPT = "receipt"
SHAPE = 'a question is {"op": "...", "input": {...}, "reply": "reply:{...", "within_ms": ...}'
# How long a pipeline that had an owner is assumed to have one.
FRESH_S = 0.25
# How long to look for the reason why nobody answered.
PAUSE_TIMEOUT_S = 0.5
# Bytes of a question besides its input.
QUESTION_BYTES = 8192
# The longest time that a caller may await an answer.
MAX_WITHIN_MS = 86_400_000
# Replies that a request keeps until it knows the ID of its entry.
MAX_EARLY = 8
Report = dict[str, Any]
Word = Annotated[str, Meta(max_length=1024)]


class NewCall(Struct, frozen=True):
    """A call of an operation on its way to the owner of a pipeline.

    A call that changes data is an entry of the input. A read-only call is a message on the channel
    `pipeline:{<uid>}:ask`. The owner answers both on the caller's reply channel with
    `{"answer": {"output": ...}}` or `{"answer": {"error": {"code", "detail"}}}`. With `as_of`, the
    output comes with `"as_of": {"change", "at", "incomplete"}`, the state that was read. If the
    input asks for a receipt, it comes with `"receipt": {"id", "change", "found", ...}`.

    `data` is the input as JSON. `store` is the memory_id, by default the pipeline's first.
    `producer_id` is an idempotency key: the same call has no second effect, and another call with
    this key is refused.
    """

    uid: str
    op: str
    data: bytes
    mutates: bool
    store: str = ""
    actor: str = ""
    producer_id: str = ""
    traceparent: str = ""  # the trace context (W3C) of the caller
    as_of: str = ""  # the time whose state a read-only call reads, "" for the present
    via: Via = NO_VIA  # how a call that changes data came in

    def at(self, uid: str) -> "NewCall":
        """Return the same call for another pipeline."""
        return replace(self, uid=uid)

    def as_entry(self, reply: str) -> NewEntry:
        """Return the entry of a call that changes data."""
        return NewEntry(
            self.uid,
            self.data,
            op=self.op,
            store=self.store,
            actor=self.actor,
            producer_id=self.producer_id,
            reply=reply,
            traceparent=self.traceparent,
            via=self.via,
        )

    def as_question(self, reply: str, within_s: float, database: int) -> bytes:
        """Return the channel message of a read-only call from a client of this `database`."""
        return _to_json(
            Question(
                self.op,
                reply,
                Raw(self.data),
                self.store,
                self.actor,
                min(max(int(within_s * 1000), 1), MAX_WITHIN_MS),
                database,
                self.traceparent or UNSET,
                self.as_of or UNSET,
            )
        )


class Question(Struct, frozen=True):
    """A read-only call, as the owner receives it.

    After `within_ms` the caller no longer awaits the answer. Channels are shared by all databases
    of a server, so only owners in the same `database` answer.
    """

    op: Word
    reply: Annotated[str, Meta(max_length=256)]
    input: Raw
    store: Word = ""
    actor: Word = ""
    within_ms: Annotated[int, Meta(ge=1, le=MAX_WITHIN_MS)] = 60_000
    database: Annotated[int, Meta(ge=0)] | None = None
    traceparent: Word | UnsetType = UNSET
    as_of: Word | UnsetType = UNSET


def read_question(payload: bytes, uid: str, message_bytes: int) -> Question:
    """Parse a message from the ask channel of a pipeline, with an input of up to `message_bytes`.

    Raises MalformedMessage, also if the reply channel belongs to another pipeline.
    """
    if len(payload) > message_bytes + QUESTION_BYTES:
        raise MessageTooLong(
            f"the question has {len(payload)} bytes; bus.max_message_bytes allows {message_bytes}"
        )
    try:
        question = _to_question(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"{error}; {SHAPE}") from error
    prefix = reply_channel(uid, "")
    if not question.reply.startswith(prefix):
        raise MalformedMessage(f"the reply channel must begin with {prefix}; {SHAPE}")
    return question


def error_answer(code: str, detail: str, faults: Sequence[Mapping[str, str]] = ()) -> bytes:
    """Return an answer with an error. `faults` lists invalid fields as {path, code, message}."""
    error: dict[str, object] = {"code": code, "detail": detail}
    if faults:
        error["faults"] = faults
    return _to_json({"error": error})


def output_answer(answer: bytes) -> bytes:
    """Return the message for the reply channel that contains only this answer."""
    return _to_json({"answer": Raw(answer)})


_to_json = msgspec.json.Encoder().encode
_to_question = msgspec.json.Decoder(Question).decode


class Requester:
    """Sends messages and calls to pipelines, and awaits the reports of their owners.

    Connections are opened at first use. Use it as an asynchronous context manager.
    """

    INGRESS = Ingress

    def __init__(self, address: Address, limits: IngressLimits | None = None) -> None:
        self.ingress, self._database = self.INGRESS(address, limits), address.database
        self._replies = ReconnectingConnection(address, connections=1)
        self._token = secrets.token_hex(8)
        self._subscribing = asyncio.Lock()
        self._receiving: asyncio.Task[None] | None = None
        self._waiting: dict[bytes, _Expected] = {}  # by reply channel
        self._owned: dict[str, float] = {}  # pipeline -> when it had an owner
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.ingress)
        await self._stack.enter_async_context(self._replies)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.wait([self._receiving])
        await self._stack.aclose()

    async def say(self, entry: NewEntry, timeout_s: float) -> Report:
        """Append an entry, and return the owner's report after the cascade has ended.

        The report is {"id", "settled": true, "results": [envelopes], "silent": [aliases],
        "errors": [texts]}; that of a call has "answer" in place of "results". Raises NoAnswer; the
        message stays in the input and runs when the owner does. Raises what `Ingress.append` does.
        """
        ident = ""
        async with self._expect_reply(entry.uid, is_report) as (channel, expected):
            try:
                ident = await self.ingress.append(replace(entry, reply=channel))
                # The report of a replay has the ID of the input that failed.
                expected.bind(entry.replay_of or ident)
                async with asyncio.timeout(timeout_s):
                    return await expected.report
            except TimeoutError as error:
                paused = await self._read_pause(entry.uid)
                raise NoAnswer(
                    _no_report(entry.uid, ident, timeout_s, paused), ident, paused
                ) from (error)

    async def call(self, call: NewCall, timeout_s: float) -> Report:
        """Return the owner's answer: {"output": ...} or {"error": {"code", "detail"}}.

        Raises NoOwner if no worker serves the pipeline, and BusBusy if too much waits: nothing was
        done. Raises NoAnswer: a call that changes data stays in the input, and runs when the owner
        does. Raises CallFailed if the owner gave up, and what `Ingress.append` does.
        """
        try:
            async with asyncio.timeout(timeout_s):
                report = await (self._change(call) if call.mutates else self._ask(call, timeout_s))
        except TimeoutError as error:
            paused = await self._read_pause(call.uid)
            why = f"; it is paused: {paused}" if paused else ""
            raise NoAnswer(
                f"pipeline {call.uid} did not answer {call.op} within {timeout_s:g} s{why}",
                "",
                paused,
            ) from error
        return _check_answer(call, report)

    async def _change(self, call: NewCall) -> Report:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._owned.get(call.uid, float("-inf")) > FRESH_S:
            if not await self.ingress.listeners(ask_channel(call.uid)):
                raise _no_owner(call.uid)
            self._owned[call.uid] = now_s
        async with self._expect_reply(call.uid, is_answer) as (channel, expected):
            expected.bind(await self.ingress.append(call.as_entry(channel)))
            return await expected.report

    async def _ask(self, call: NewCall, timeout_s: float) -> Report:
        async with self._expect_reply(call.uid, is_answer) as (channel, expected):
            expected.bind("")
            question = call.as_question(channel, timeout_s, self._database)
            if not await self.ingress.publish(ask_channel(call.uid), question):
                raise _no_owner(call.uid)
            return await expected.report

    async def _read_pause(self, uid: str) -> str:
        """Return why a pipeline is paused, "" if that cannot be found out quickly."""
        with suppress(BusError, TimeoutError):
            async with asyncio.timeout(PAUSE_TIMEOUT_S):
                return await self.ingress.read_pause(uid)
        return ""

    @asynccontextmanager
    async def _expect_reply(
        self, uid: str, fits: Callable[[Any], bool]
    ) -> AsyncIterator[tuple[str, "_Expected"]]:
        """Yield a new reply channel and the expected reply.

        The channel belongs to this request alone, and its name cannot be guessed from others.
        Replies that do not fit are ignored. Raises BusUnavailable and BusRefused.
        """
        if self._receiving is None or self._receiving.done():
            await self._subscribe()
        channel = reply_channel(uid, f"{self._token}.{secrets.token_hex(8)}")
        expected = self._waiting[channel.encode()] = _Expected(uid, fits)
        try:
            yield channel, expected
        finally:
            del self._waiting[channel.encode()]

    async def _subscribe(self) -> None:
        """Subscribe to all reply channels of this requester, once for all waiting callers."""
        async with self._subscribing:
            if self._receiving is None or self._receiving.done():
                pattern = reply_pattern(f"{self._token}.*")
                subscription = await self._replies.subscribe(pattern)
                self._receiving = asyncio.create_task(self._receive(subscription))

    async def _receive(self, subscription: PubSub) -> None:
        """Pass on replies until the connection breaks."""
        try:
            async for message in subscription.listen():
                if (expected := self._waiting.get(message["channel"])) is not None:
                    expected.take(message["data"])
        except RedisError as error:
            # The entries were appended, so they run.
            lost = BusUnavailable(f"the connection that awaited the reply broke: {error}")
            for expected in self._waiting.values():
                fail(expected.report, lost)
        finally:
            await subscription.aclose()  # type: ignore[no-untyped-call]


class _Expected:
    """A request whose reply is awaited. `fits` returns whether parsed JSON is such a reply."""

    def __init__(self, uid: str, fits: Callable[[Any], bool]) -> None:
        self.report: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self._uid, self._fits = uid, fits
        # The ID of the request's entry, "" for a question; None while it is unknown.
        self._ident: str | None = None
        # Replies that came before the ID.
        self._early: deque[Report] = deque(maxlen=MAX_EARLY)

    def bind(self, ident: str) -> None:
        """Accept only the reply to this entry; "" stands for a question, which has no ID."""
        self._ident = ident
        for reply in self._early:
            self._settle(reply)

    def take(self, payload: bytes) -> None:
        """Settle the request, unless the payload is malformed."""
        try:
            reply = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            MALFORMED.drop(REPLY, error, self._uid)
            return
        if not self._fits(reply):
            MALFORMED.drop(REPLY, "neither a report nor an answer to a call", self._uid)
        elif self._ident is None:
            self._early.append(reply)
        else:
            self._settle(reply)

    def _settle(self, reply: Report) -> None:
        if reply.get("id", "") != self._ident:
            MALFORMED.drop(REPLY, "it belongs to another message", self._uid)
        elif not self.report.done():
            self.report.set_result(reply)


def is_report(reply: Any) -> bool:
    """Return whether a parsed reply is a report of a cascade, as `Requester.say` returns it."""
    return (
        isinstance(reply, dict)
        and isinstance(reply.get("id"), str)
        and reply.get("settled") is True
        and _is_list_of(dict, reply.get("results"))
        and all(_is_list_of(str, reply.get(key, [])) for key in ("silent", "public", "errors"))
    )


def is_answer(reply: Any) -> bool:
    """Return whether a parsed reply answers a call, or reports that the owner gave it up."""
    if not isinstance(reply, dict) or "answer" not in reply:
        return is_report(reply)
    answer = reply["answer"]
    if not isinstance(answer, dict) or len(answer.keys() - {AS_OF, RECEIPT}) != 1:
        return False
    if not all(isinstance(answer.get(name, {}), dict) for name in (AS_OF, RECEIPT)):
        return False
    if "output" in answer:
        return isinstance(answer["output"], dict | None)
    error = answer.get("error")
    return isinstance(error, dict) and all(
        isinstance(error.get(key), str) for key in ("code", "detail")
    )


def _is_list_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _check_answer(call: NewCall, report: Report) -> Report:
    answer = report.get("answer")
    if not isinstance(answer, dict):
        raise CallFailed(f"{call.op}: {(report.get('errors') or ['the owner gave up'])[0]}")
    refusal = answer.get("error", {})
    if refusal.get("code") == BUSY:
        raise BusBusy(refusal["detail"])
    if refusal.get("code") == LEAVING:
        raise NoOwner(refusal["detail"])
    return answer


def _no_report(uid: str, ident: str, timeout_s: float, paused: str) -> str:
    when = (
        "the paused pipeline is resumed"
        if paused
        else "a worker serves the pipeline; is one running?"
    )
    return (
        f"pipeline {uid} did not report message {ident} within {timeout_s:g} s; it is kept in the "
        f"input and runs when {when}"
    )


def _no_owner(uid: str) -> NoOwner:
    return NoOwner(
        f"no worker serves pipeline {uid} now, and nothing was done; check `memrelay status`, and "
        "start a worker with `memrelay worker`"
    )
