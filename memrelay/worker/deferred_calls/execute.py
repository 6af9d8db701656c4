"""Executes one deferred call in their thread, and calls its block again with the result."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, Never

from memrelay.blocks.async_call import AsyncCall
from memrelay.blocks.contract import AsyncBlock, Call, Executor, Got, Handle, Limits, Shared
from memrelay.bus.codec import decode_kept, encode_kept
from memrelay.bus.message import Message
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.errors import Refused
from memrelay.memory.records.ids import derive_guid, input_time_ms
from memrelay.pipelines.plan import PlannedAgent
from memrelay.worker.deferred_calls.bus_operations import BusOperations, CallOperations
from memrelay.worker.deferred_calls.stored import pack_result, parse_request


async def execute(
    bus: BusOperations, pending: Pending, subscriber: PlannedAgent, max_bytes: int
) -> bytes:
    """Return the result of a deferred call as JSON. Raises whatever its executor raises."""
    executor = subscriber.executor
    if isinstance(executor, AsyncBlock):
        value: Any = await _run_async_block(executor, bus, pending, subscriber, max_bytes)
    elif executor is None:
        raise TypeError(
            f"the block {subscriber.block} no longer has deferred calls; send the message again"
        )
    else:
        run = _load(executor) if isinstance(executor, str) else executor
        value = await run(parse_request(pending), _Running(bus, pending, subscriber))
    return pack_result(value, max_bytes)


def resume(subscriber: PlannedAgent, got: Got) -> Handle:
    """Return the function that takes the result of a deferred call in place of the block."""
    if isinstance(subscriber.executor, AsyncBlock):
        return partial(_answer, got)
    return partial(_call_again, subscriber.block_handle, got)


def _call_again(handle: Handle, got: Got, call: Call, args: Any) -> Any:
    call.got = got
    return handle(call, args)


def _answer(got: Got, call: Call, args: Any) -> Message | None:
    """Return the message of an async block."""
    if got.error:
        return call.error(got.error)
    if got.value is None:
        return None
    return decode_kept(got.value.encode())


async def _run_async_block(
    block: AsyncBlock,
    bus: BusOperations,
    pending: Pending,
    subscriber: PlannedAgent,
    max_bytes: int,
) -> str | None:
    """Return the envelope of the answer as JSON."""
    agent, deferred_call_id = subscriber.agent, pending.id
    call = AsyncCall(
        agent,
        decode_kept(pending.data),
        input_time_ms(pending.root),
        Limits(max_bytes),
        _Ids(agent.pipeline, deferred_call_id.partition("/")[2], bus),
        operations=CallOperations(bus, subscriber, pending),
        deferred_call=deferred_call_id,
    )
    answer = await block.handle(call, subscriber.args)
    if answer is not None and answer.__class__ is not Message:
        raise TypeError(
            f"the block returned {type(answer).__name__}: return call.reply(text) or None"
        )
    return None if answer is None else encode_kept(answer).decode()


class _Running:
    """Implements RunningCall."""

    def __init__(self, bus: BusOperations, pending: Pending, subscriber: PlannedAgent) -> None:
        self.id, self.hop, self.attempts = pending.id, pending.hop, pending.attempts
        self.actor = subscriber.agent.name
        self.pipeline, self.outgoing = subscriber.agent.pipeline, bus.outgoing
        self.may_call_private = "models" in bus.outgoing.open_for
        self._bus = bus
        self._operations = CallOperations(bus, subscriber, pending)

    def secret(self, reference: str) -> str:
        return self._bus.secrets.read_for_block(reference)

    def secret_for(self, reference: str, host: str) -> str:
        return self._bus.secrets.read_to_send(reference, host, self.pipeline)

    async def operate(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        store: str = "",
        key: str = "",
        as_of: str = "",
    ) -> Any:
        return await self._operations.call(name, given, store, key, as_of)

    async def share(
        self, key: str, open_it: Callable[[], AbstractAsyncContextManager[Shared]]
    ) -> Shared:
        return await self._bus.share(key, open_it)


class _Ids:
    """Makes record ids that are the same when the deferred call is repeated, and reads secrets."""

    def __init__(self, uid: str, ident: str, bus: BusOperations) -> None:
        self._uid, self._ident, self._bus, self._numbers = uid, ident, bus, count(1)

    def new_guid(self, alias: str) -> str:
        return derive_guid(self._uid, self._ident, alias, next(self._numbers))

    def next_deferred_call_id(self) -> str:
        raise Refused("an async block returns no DeferredCall; await the service in the block")

    @property
    def input_id(self) -> str:
        return self._ident.partition(".")[0]

    def open_for_read(self, memory_id: str) -> Never:
        raise Refused(f"an async block opens no store; read {memory_id!r} with call.operate")

    def secret(self, reference: str) -> str:
        return self._bus.secrets.read_for_block(reference)


def _load(place: str) -> Executor:
    """Return the function at "module:function". Raises ImportError and AttributeError."""
    module, _, name = place.partition(":")
    found: Executor = getattr(import_module(module), name)
    return found
