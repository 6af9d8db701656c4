"""Executes the deferred calls of a pipeline under test, or answers them in its place."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
from msgspec import UNSET

from memrelay.blocks.contract import AsyncBlock
from memrelay.bus.client.url import Address
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.bus.message import JSON, PLAIN, Message, Part
from memrelay.bus.request import NewCall
from memrelay.guarded_http.rules import OutgoingRules
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import Plan, PlannedAgent
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.worker.deferred_calls.bus_operations import BusOperations
from memrelay.worker.deferred_calls.execute import execute
from memrelay.worker.deferred_calls.runner import Ended, make_end
from memrelay.worker.deferred_calls.stored import pack_result, parse_request

# Blocks that make requests. The code of any other block runs really.
NEED_ANSWERS = ("http_request", "webhook_send", "agent")
Answer = Callable[[NewCall], dict[str, Any]]


class Requested(NamedTuple):
    """A deferred call that an agent has made.

    `request` is what the block asked for. For an async block it is the text of the message.
    """

    agent: str
    block: str
    request: Any


class NoAnswer(AssertionError):
    """A pipeline made a request for which its test has no answer."""


class CallExecutor:
    """Executes deferred calls. They survive a crash of the owner as calls to other services do.

    The keys of `answers` are aliases of agents or names of blocks, and so are those in `real`.
    """

    def __init__(
        self, plan: Plan, secrets: SecretResolver, outgoing: OutgoingRules, max_bytes: int
    ) -> None:
        self._plan, self._secrets, self._max_bytes = plan, secrets, max_bytes
        self._operations = _Operations(Address(), secrets, outgoing)
        self.requests: list[Requested] = []
        self.answers: dict[str, list[Any]] = {}
        self.real: set[str] = set()

    async def execute(self, pending: Pending, answer: Answer) -> Ended:
        """Return the end of a deferred call. `answer` answers its operations. Raises NoAnswer."""
        subscriber = self._plan.subscriber(pending.agent)
        assert subscriber is not None  # it has made the call
        is_async = isinstance(subscriber.executor, AsyncBlock)
        request = decode_kept(pending.data).text if is_async else parse_request(pending)
        self.requests.append(Requested(pending.agent, subscriber.block, request))
        self._operations.answer = answer
        task = asyncio.ensure_future(self._run(pending, subscriber, request))
        await asyncio.wait([task])
        fault = task.exception()
        if fault is None:
            return Ended(task.result())
        if isinstance(fault, Exception) and not isinstance(fault, NoAnswer):
            return make_end(fault, self._secrets)
        raise fault

    async def close(self) -> None:
        """Close the connections to services."""
        await self._operations.close()

    async def _run(self, pending: Pending, subscriber: PlannedAgent, request: Any) -> bytes:
        names = {pending.agent, subscriber.block}
        for name in names & self.answers.keys():
            value = _take(self.answers[name], request)
            if isinstance(subscriber.executor, AsyncBlock):
                value = _make_envelope(value, subscriber)
            return pack_result(value, self._max_bytes)
        if subscriber.block not in NEED_ANSWERS or names & self.real:
            return await execute(self._operations, pending, subscriber, self._max_bytes)
        alias = pending.agent
        raise NoAnswer(
            f'the agent "{alias}" made a request, and the test has no answer: call '
            f'p.answer("{alias}", ...), or p.execute("{alias}") to make it really; the request '
            f"is {request}"
        )


class _Operations(BusOperations):
    """Calls operations of the pipeline under test."""

    answer: Answer

    async def send(self, call: NewCall) -> dict[str, Any]:
        """Return the answer to a call. Raises OperationFailed."""
        return self.answer(call)


def _take(answers: list[Any], request: Any) -> Any:
    """Return the next answer, and the last one again. Raises an answer that is an exception."""
    value = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(value, Exception):
        raise value
    return value(request) if callable(value) else value


def _make_envelope(value: Any, subscriber: PlannedAgent) -> str | None:
    """Return what an async block would have returned."""
    if value is None or isinstance(value, Message):
        return None if value is None else encode_kept(value).decode()
    agent = subscriber.agent
    text, kind = (value, PLAIN) if isinstance(value, str) else (orjson.dumps(value).decode(), JSON)
    part = Part(agent.username, text, UNSET, kind)
    return encode_kept(Message(agent.name, "", text, kind, UNSET, (part,))).decode()
