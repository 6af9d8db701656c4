"""Base classes of the generated methods: one noun of the operations, as `client.records`."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

Strings = list[str] | tuple[str, ...]
JsonObject = dict[str, Any]
JsonObjects = list[JsonObject] | tuple[JsonObject, ...]
Output = TypeVar("Output")
P = ParamSpec("P")


# Each takes the name of an operation and the arguments of its method.
RemoteCall = Callable[[str, JsonObject], Awaitable[Any]]
EmbeddedCall = Callable[[str, JsonObject], Any]
# Waits for a coroutine and returns its result.
Run = Callable[[Coroutine[Any, Any, Any]], Any]


class RemoteNoun:
    """A noun of the async client."""

    def __init__(self, call: RemoteCall) -> None:
        self._call = call


class EmbeddedNoun:
    """A noun of an embedded store."""

    def __init__(self, call: EmbeddedCall) -> None:
        self._call = call


class BlockingNoun:
    """A noun of the blocking client."""

    def __init__(self, remote: RemoteNoun, run: Run) -> None:
        self.remote, self.run = remote, run


class Blocking(Generic[P, Output]):
    """A method that waits for an async method with the same parameters."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Output]]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    @overload
    def __get__(self, noun: None, owner: type) -> "Blocking[P, Output]": ...

    @overload
    def __get__(self, noun: BlockingNoun, owner: type) -> Callable[P, Output]: ...

    def __get__(self, noun: BlockingNoun | None, owner: type) -> Any:
        if noun is None:
            return self
        method: Callable[..., Coroutine[Any, Any, Any]] = self._method
        bound = functools.partial(method, noun.remote)

        @functools.wraps(self._method)
        def wait(*args: Any, **named: Any) -> Any:
            return noun.run(bound(*args, **named))

        return wait
