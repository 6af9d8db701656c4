"""The operations from Python, over HTTP: `async with connect(url, key) as relay: await
relay.records.create(uid, "tea")`.

What is given is that of the operation, and so is what comes back: `relay.<noun>.<verb>` is made
from each declaration.
"""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientSession, hdrs
from pydantic import TypeAdapter
from yarl import URL

from memrelay.memory.operation import Noun, Operation, bound_input
from memrelay.web.api.operation_routes import IN_HEADER, STORE, route_of

Call = Callable[..., Awaitable[Any]]


class RelayError(Exception):
    """The server refused a call, or could not be reached; `status` is 0 then. `faults` has all that
    is wrong with an input."""

    def __init__(self, status: int, detail: str, faults: tuple[dict[str, Any], ...] = ()) -> None:
        """As the server tells it."""
        super().__init__(detail)
        self.status, self.detail, self.faults = status, detail, faults


class Relay:
    """A Memrelay server. Use it as an asynchronous context; it has an attribute for each noun of
    the operations."""

    def __init__(self, url: str, key: str = "") -> None:
        """`url` is its address, and `key` one that `memrelay keys create` made, where the server
        asks for one."""
        self._url, self._headers = (
            url.rstrip("/"),
            {hdrs.AUTHORIZATION: f"Bearer {key}"} if key else {},
        )

    async def __aenter__(self) -> Self:
        """Nothing is sent yet."""
        self._session = ClientSession(headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._session.close()

    @cached_property
    def records(self) -> Noun[Call]:
        """What a pipeline remembers."""
        return Noun("records", self._bind)

    @cached_property
    def memories(self) -> Noun[Call]:
        """Its named memories."""
        return Noun("memories", self._bind)

    @cached_property
    def entries(self) -> Noun[Call]:
        """What named memories hold."""
        return Noun("entries", self._bind)

    @cached_property
    def knowledge(self) -> Noun[Call]:
        """What is found in named memories."""
        return Noun("knowledge", self._bind)

    def _bind(self, operation: Operation) -> Call:
        async def call(
            pipeline: str,
            /,
            *given: Any,
            store: str = "",
            idempotency_key: str | None = None,
            **named: Any,
        ) -> Any:
            """Calls the operation in the pipeline of that uid. Raises RelayError."""
            values = bound_input(operation, given, named)
            return await self._call(
                operation, pipeline, values, {STORE: store} if store else {}, idempotency_key
            )

        call.__doc__ = operation.summary
        return call

    async def _call(
        self,
        operation: Operation,
        uid: str,
        given: dict[str, Any],
        query: dict[str, str],
        key: str | None,
    ) -> Any:
        place = route_of(operation)
        names = {name: quote(str(given[name]), safe="") for name in place.path_fields}
        url = URL(self._url + place.path.format(uid=quote(uid, safe=""), **names), encoded=True)
        headers = (
            {} if key is None else {"Idempotency-Key": key}
        )  # an empty one is refused, and not left out
        if versions := given.get(IN_HEADER):
            headers[hdrs.IF_MATCH] = ", ".join(f'"{version}"' for version in _several(versions))
        asked = [
            (name, _text(one))
            for name in place.query_fields
            if name in given
            for one in _several(given[name])
        ]
        body = (
            {name: given[name] for name in place.body_fields if name in given}
            if place.body_fields
            else None
        )
        try:
            async with self._session.request(
                place.method, url, params=[*query.items(), *asked], json=body, headers=headers
            ) as response:
                return _output(operation, response.status, await response.read())
        except (ClientError, TimeoutError) as error:
            raise RelayError(0, f"{self._url} does not answer: {error}") from error


def connect(url: str, key: str = "") -> Relay:
    """The server at `url`. Raises ValueError where that is no address of one."""
    if not url.startswith(("http://", "https://")) or not URL(url).host:
        raise ValueError(
            f"{url[:100]!r} is no address of a server; write it like http://127.0.0.1:8765"
        )
    return Relay(url, key)


def _several(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    """As a parameter says it."""
    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)


def _output(operation: Operation, status: int, body: bytes) -> Any:
    """What the operation gives. Raises RelayError."""
    if status < 300:
        return TypeAdapter(operation.output).validate_json(body) if body else None
    try:
        problem = orjson.loads(body)
        raise RelayError(status, problem["detail"], tuple(problem.get("faults", ())))
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RelayError(status, f"the answer is none of Memrelay's: {body[:200]!r}") from error
