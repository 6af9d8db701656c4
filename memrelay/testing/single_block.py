"""run_block: call one block on one message, as the worker does."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Never, TypeVar

import orjson

from memrelay.blocks.async_call import AsyncCall, OperationFailed
from memrelay.blocks.contract import (
    Agent,
    AsyncBlock,
    Block,
    BlockArgs,
    Call,
    DeferredCall,
    Got,
    Limits,
)
from memrelay.blocks.registry import block_of
from memrelay.bus.message import Message, new_message
from memrelay.embedded.store import EmbeddedStore, open_store
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.memory.errors import Refused
from memrelay.memory.records.ids import derive_guid

UID, SWARM, USER = "test", "chat", "User"
MESSAGE_BYTES = 1 << 20
# Deferred calls of one message. A block that never ends is stopped.
MOST_CALLS = 100
Result = TypeVar("Result")
_numbers = count(1)


def run_block(
    function: Callable[..., Any],
    text: str | Message,
    store: str | Path | None = None,
    *,
    agent: str = "agent",
    answers: Iterable[Any] = (),
    **arguments: Any,
) -> Message | None:
    """Call a block on a message and return its answer, None if it publishes nothing.

    `function` is the decorated function, and `arguments` are those of `wf_webhook_args`. A block
    with a store uses the file `store`, which `open_store` also opens; without it, an empty store
    that is deleted afterwards. All writes are committed, or none if the block raises an exception.

    A block that returns a DeferredCall gets the next value of `answers` as its result. An
    exception among them becomes an error of the deferred call. The operations of an async block
    run on the store. Secrets cannot be read.

    A write that the store refuses is answered with {"error": ...}, as in a pipeline. Raises
    whatever the block raises; ValueError for invalid arguments, and for a deferred call without an
    answer; StoreBusy while the file is open elsewhere.
    """
    block = block_of(function)
    now_ms = time.time_ns() // 1_000_000
    message = text if isinstance(text, Message) else _make_message(text, now_ms)
    args = _make_args(block, arguments)
    has_store = bool(args.store) or isinstance(block.executor, AsyncBlock)
    if store is not None and not has_store:
        raise ValueError(f"the block {block.name} has no store: leave `store` out")
    with ExitStack() as stack:
        opened = _open(store, agent, stack) if has_store else None
        caller = _Caller(block, args, message, (agent, now_ms), opened)
        if isinstance(block.executor, AsyncBlock):
            return caller.run_async(block.executor)
        return caller.run(iter(answers))


def _make_message(text: str, now_ms: int) -> Message:
    return new_message(USER, "user", text, username=USER, now_ms=now_ms)


def _make_args(block: Block, arguments: Mapping[str, Any]) -> BlockArgs:
    """Return the arguments, with a store for a block that has one. Raises ValueError."""
    args = block.args.model_validate(dict(arguments))
    if "memory_id" not in block.args.model_fields or args.store:
        return args
    name = args.only_store or args.default_store or "memories"
    return args.model_copy(update={"memory_id": built_in_store(UID, name)})


def _open(store: str | Path | None, agent: str, stack: ExitStack) -> EmbeddedStore:
    path = store or Path(stack.enter_context(TemporaryDirectory()), "store.db")
    return stack.enter_context(open_store(path, agent, embedder="none"))


class _Caller:
    """Calls a block until it answers."""

    def __init__(
        self,
        block: Block,
        args: BlockArgs,
        message: Message,
        caller: tuple[str, int],
        store: EmbeddedStore | None,
    ) -> None:
        self._block, self._args, self._message, self._store = block, args, message, store
        name, self._now_ms = caller
        programs = frozenset({name})
        self._agent = Agent(UID, name, name, name, True, SWARM, programs, DEFAULT_ZONE)
        self._ids = _Ids(f"{self._now_ms}-{next(_numbers)}")

    def run(self, answers: Iterator[Any]) -> Message | None:
        got = None
        for _ in range(MOST_CALLS):
            answer = self._call(got)
            if not isinstance(answer, DeferredCall):
                return answer
            got = self._answer(answer, answers)
        raise ValueError(f"the block {self._block.name} made {MOST_CALLS} deferred calls")

    def _call(self, got: Got | None) -> Message | DeferredCall | None:
        call = Call(
            self._agent, self._message, self._now_ms, Limits(MESSAGE_BYTES), self._ids, got=got
        )
        if self._block.handle is None:
            raise ValueError(f"the block {self._block.name} cannot be called")
        try:
            if self._store is None:
                return self._block.handle(call, self._args)
            with self._store.open_transaction() as tx:
                origin = self._agent.name, self._message.sender, "test", "", "", "", ""
                tx.records.set_actor(self._now_ms, self._agent.name, "", origin, self._ids.input_id)
                call.tx = tx
                return self._block.handle(call, self._args)
        except Refused as refused:
            return call.error(str(refused))

    def _answer(self, deferred_call: DeferredCall, answers: Iterator[Any]) -> Got:
        request = orjson.dumps(deferred_call.request)
        ident = self._ids.next_deferred_call_id()
        try:
            value = next(answers)
        except StopIteration:
            raise ValueError(
                f"the block {self._block.name} made a deferred call, and the test has no answer "
                f"to it: pass answers=[...]; the request is {request.decode()[:1000]}"
            ) from None
        if isinstance(value, Exception):
            return Got(ident, error=f"{type(value).__name__}: {value}")
        return Got(ident, orjson.loads(orjson.dumps(value)))

    def run_async(self, block: AsyncBlock) -> Message | None:
        assert self._store is not None
        call = AsyncCall(
            self._agent,
            self._message,
            self._now_ms,
            Limits(MESSAGE_BYTES),
            self._ids,
            operations=_StoreOperations(self._store),
            deferred_call=self._ids.next_deferred_call_id(),
        )
        return _run(block.handle(call, self._args))


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine, in another thread if the caller has a running event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class _Ids:
    """Makes the ids of one message."""

    def __init__(self, input_id: str) -> None:
        self.input_id = input_id
        self._guids, self._calls = count(1), count()

    def new_guid(self, alias: str) -> str:
        return derive_guid(UID, self.input_id, alias, next(self._guids))

    def next_deferred_call_id(self) -> str:
        return f"{UID}/{self.input_id}.0+{next(self._calls)}"

    def open_for_read(self, memory_id: str) -> Never:
        raise Refused(f"run_block opens no further store {memory_id!r}: use test_pipeline")

    def secret(self, reference: str) -> str:
        raise LookupError(f"run_block has no secret {reference[:100]}: use test_pipeline")


class _StoreOperations:
    """Calls operations on the store, for an async block."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    async def call(
        self, name: str, given: Mapping[str, Any], store: str, key: str, as_of: str = ""
    ) -> Any:
        try:
            return self._store.operate(name, given, as_of=as_of)
        except Refused as refused:
            raise OperationFailed(refused.code, str(refused)) from refused
