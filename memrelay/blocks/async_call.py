"""The call of an `async def` block: a deferred call, which runs outside of the database thread."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from memrelay.blocks.contract import Call, Transient
from memrelay.memory.engine.models import load

if TYPE_CHECKING:
    from memrelay.client.nouns import AsyncNouns
else:

    class AsyncNouns:
        """For type checkers: the operations are coroutines."""

        __slots__ = ()


class Operations(Protocol):
    """Calls operations of the block's pipeline."""

    async def call(
        self, name: str, given: Mapping[str, Any], store: str, key: str, as_of: str = ""
    ) -> Any:
        """Return the output of an operation. Raises OperationFailed."""


class OperationFailed(Exception):
    """An operation was refused, or the pipeline did not answer.

    `code` is that of the answer, such as `refused` or `not_found`, or `unavailable`.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class OperationUnavailable(OperationFailed, Transient):
    """The pipeline or the bus does not answer now. If the block does not catch it, the worker calls
    the block again later, as for any Transient.
    """


class AsyncCall(Call, AsyncNouns, kw_only=True, gc=False):  # type: ignore[misc]
    """One message for one agent, in an `async def` block.

    It has no `tx`. The operations are coroutines, such as `await call.records.create`, on the first
    store of the pipeline. `deferred_call_id` stays the same if a crash makes the worker repeat the
    call, so send it to services as the idempotency key.
    """

    operations: Operations
    deferred_call: str  # the id of the deferred call

    def find_noun(self, name: str) -> Any:
        """Return the operations on a noun, as coroutines. Raises AttributeError."""
        find: Callable[[AsyncCall, str], Any] = load("memrelay.blocks.nouns:find_async_noun")
        return find(self, name)

    @property
    def deferred_call_id(self) -> str:
        """Return the id of this call. A repeated call has the same one."""
        return self.deferred_call

    async def operate(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        store: str = "",
        key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation of the pipeline, such as `records.create`, and return its output.

        `given` is its input, and `store` its `memory_id` (by default the pipeline's first). A
        repeated call has no second effect: its idempotency key is the id of the deferred call with
        the number of the operation within this call, or with `key`. `as_of` reads the state of a
        past time. Raises OperationFailed, and
        OperationUnavailable while the pipeline does not answer.
        """
        return await self.operations.call(name, given, store, key, as_of)
