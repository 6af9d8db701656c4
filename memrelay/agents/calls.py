"""Call operations in the same way over an embedded store, over HTTP, and from a deferred call."""

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

Result = TypeVar("Result")
CALLS = (
    "the store of `open_store`, a client of `connect` or `connect_sync`, or the call of an "
    "`async def` block"
)


# Yields (operation, input) and receives the output.
CallSteps = Generator[tuple[str, dict[str, Any]], Any, Result]


class Calls:
    """Calls operations of a blocking store or client. Inputs and outputs are JSON values.

    `key` is an idempotency key: a repeated call with the same key and input has no second effect.
    An embedded store ignores it, because its calls are not repeated.
    """

    def __init__(self, operate: Any, takes_key: bool) -> None:
        self._operate, self._takes_key = operate, takes_key

    def run(self, name: str, arguments: Mapping[str, Any], *, key: str = "") -> Any:
        """Return the output of an operation.

        Raises TypeError if only `arun` works. Raises MemoryFault, RelayError or OperationFailed.
        """
        return self._operate(name, arguments, **({"key": key} if self._takes_key else {}))

    async def arun(self, name: str, arguments: Mapping[str, Any], *, key: str = "") -> Any:
        """Return the output of an operation. Raises MemoryFault, RelayError or OperationFailed.

        The call runs in a thread, so that the event loop never waits.
        """
        return await asyncio.to_thread(self.run, name, arguments, key=key)

    def run_steps(self, steps: CallSteps[Result], make_key: Callable[[], str] = str) -> Result:
        """Execute the calls that a generator yields, and return its result.

        `make_key` returns the idempotency key of each call; by default they have none.
        """
        output = None
        while True:
            try:
                name, arguments = steps.send(output)
            except StopIteration as end:
                return cast(Result, end.value)
            output = self.run(name, arguments, key=make_key())

    async def arun_steps(
        self, steps: CallSteps[Result], make_key: Callable[[], str] = str
    ) -> Result:
        """Execute the calls as `run_steps` does."""
        output = None
        while True:
            try:
                name, arguments = steps.send(output)
            except StopIteration as end:
                return cast(Result, end.value)
            output = await self.arun(name, arguments, key=make_key())


class _AsyncCalls(Calls):
    def run(self, name: str, arguments: Mapping[str, Any], *, key: str = "") -> Any:
        raise TypeError(
            f"{name} cannot wait here, because the client is async; use the async methods, such as "
            "`ainvoke`, or a client of `connect_sync`"
        )

    async def arun(self, name: str, arguments: Mapping[str, Any], *, key: str = "") -> Any:
        return await self._operate(name, arguments, **({"key": key} if self._takes_key else {}))


def make_calls(call: Any, *, uid: str = "", store: str = "") -> Calls:
    """Return the operations of a pipeline, or of an embedded store.

    `call` has the method `operate`: the store of `open_store`, a Client or BlockingClient, or the
    call of an `async def` block. `uid` selects the pipeline of a client, by default its only one.
    `store` is the memory_id, by default that of the operation; an embedded store ignores it.

    Raises TypeError for another object, and for a `uid` that the call does not take.
    """
    operate = getattr(call, "operate", None)
    if not callable(operate):
        raise TypeError(f"{type(call).__name__} cannot call operations; give {CALLS}")
    names = inspect.signature(operate).parameters
    if uid and "pipeline" not in names:
        raise TypeError(f"{type(call).__name__} has one pipeline; leave `uid` empty")
    fixed = {"pipeline": uid, "store": store}
    bound = partial(operate, **{name: value for name, value in fixed.items() if name in names})
    make = _AsyncCalls if inspect.iscoroutinefunction(operate) else Calls
    return make(bound, takes_key="key" in names)
