"""Clients over HTTP: `connect` for asyncio, `connect_sync` for blocking code.

Both have one attribute per noun of the operations, for example `records`.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from typing import Any, Self, TypeVar
from urllib.parse import quote

import orjson
from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientWebSocketResponse,
    WSMsgType,
    WSServerHandshakeError,
    hdrs,
)
from pydantic import TypeAdapter
from yarl import URL

from memrelay.bus.codec import decode, encode
from memrelay.bus.message import Message, new_message
from memrelay.client.nouns import BlockingNouns, RemoteNouns
from memrelay.client.read_state import LAST_READ, ReadsPast, ReadState, parse_read_state
from memrelay.errors import RelayError
from memrelay.memory.engine.identity import VOUCHED
from memrelay.memory.errors import Refused
from memrelay.memory.operations import (
    AS_OF,
    STORE,
    Operation,
    input_schema,
    json_type,
    known_operation,
    selects_store,
)
from memrelay.memory.stopped_writes import read_stopped
from memrelay.web.api.operation_routes import (
    AS_OF_HEADER,
    IN_HEADER,
    REFERENCE_FIELDS,
    returns_stored_text,
    route_of,
)

Result = TypeVar("Result")
PREFIX = "/v1/pipelines"
# A reply may be as long as the server's bus.max_message_bytes, which the client does not know.
MESSAGE_BYTES = 1 << 30
JSON_BODY = {hdrs.CONTENT_TYPE: "application/json"}
# The status of the answer while the server prepares the state of a past time.
NOT_YET = 202
# How long a call with `as_of` waits for that, and between two attempts if the server names no time.
PAST_WAIT_S, PAUSE_S = 300.0, 2.0


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """A message of a swarm. `cursor` resumes `listen` after it; `mid` identifies the message."""

    cursor: str
    mid: str
    message: Message


@dataclass(frozen=True, slots=True)
class DeployedPipeline:
    """A deployed version. `is_served` is true if a worker already runs it."""

    uid: str
    name: str
    hash: str
    version: int
    is_served: bool
    warnings: tuple[dict[str, Any], ...]


class Client(RemoteNouns, ReadsPast):
    """A Memrelay server. Use it as an asynchronous context manager.

    `url` is the address of the server. `key` comes from `memrelay keys create`.
    """

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {hdrs.AUTHORIZATION: f"Bearer {key}"} if key else {}
        self._uid = ""  # of the only pipeline, once it is known

    async def __aenter__(self) -> Self:
        self._session = ClientSession(headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def say(
        self,
        pipeline: str,
        text: str,
        *,
        swarm: str = "chat",
        sender: str = "User",
        wait_s: float = 10.0,
        idempotency_key: str | None = None,
    ) -> list[Message]:
        """Send a text to a swarm, wait until it is processed, and return the results.

        Raises RelayError: also with status 504 after `wait_s` seconds. The message then stays
        queued, and the worker still processes it.
        """
        message = new_message(
            sender, "python", text, username=sender, now_ms=time.time_ns() // 1_000_000
        )
        report = await self._send(
            "POST",
            f"{PREFIX}/{_quote(pipeline)}/swarms/{_quote(swarm)}/messages",
            data=encode(message),
            params={"wait": f"{wait_s:g}"},
            headers=JSON_BODY | _make_key_header(idempotency_key),
        )
        results = orjson.loads(report)["results"]
        return [decode(orjson.dumps(result), MESSAGE_BYTES) for result in results]

    async def deploy(
        self, bundle: dict[str, Any] | bytes, uid: str | None = None, if_match: str | None = None
    ) -> DeployedPipeline:
        """Deploy a bundle, as a dictionary or as JSON.

        With `uid`, replace the bundle of this pipeline, or create the pipeline. `if_match` is the
        hash of the bundle that must be deployed now. Without `uid`, create a pipeline.

        Raises RelayError: status 422 with all `faults`, 409 if the pipeline exists, 412 if another
        bundle is deployed.
        """
        condition = {} if if_match is None else {hdrs.IF_MATCH: f'"{if_match}"'}
        answer = await self._send(
            "POST" if uid is None else "PUT",
            PREFIX if uid is None else f"{PREFIX}/{_quote(uid)}",
            data=bundle if isinstance(bundle, bytes) else orjson.dumps(bundle),
            headers=JSON_BODY | condition,
        )
        deployed = orjson.loads(answer)
        return DeployedPipeline(
            deployed["pipeline_uid"],
            deployed["name"],
            deployed["hash"],
            deployed["version"],
            deployed["served"],
            tuple(deployed["warnings"]),
        )

    async def listen(
        self, pipeline: str, swarm: str = "chat", *, after: str = ""
    ) -> AsyncGenerator[LiveMessage]:
        """Yield the messages of a swarm as they are published.

        It begins with the first message after the cursor `after`, or with the next message. "0-0"
        begins at the oldest message of the log. Raises RelayError if the server ends the stream;
        listen again after the last cursor.
        """
        url = self._address(f"{PREFIX}/{_quote(pipeline)}/swarms/{_quote(swarm)}/messages")
        try:
            socket = await self._session.ws_connect(url, params={"after": after} if after else {})
        except WSServerHandshakeError as error:
            raise RelayError(error.status, f"{url} refused to listen: {error.message}") from error
        except (ClientError, TimeoutError) as error:
            raise self._no_answer(error) from error
        async with socket:
            while True:
                yield await _next_message(socket)

    async def operate(
        self,
        name: str,
        input: Mapping[str, Any],
        *,
        pipeline: str = "",
        store: str = "",
        key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation by its name, such as `records.create`, and return its output as JSON
        values.

        `pipeline` is by default the only one of the server, `store` that of the operation. `key` is
        an idempotency key. `as_of` reads the state of a past time.

        Raises Refused: the operation does not exist, or the server has several pipelines. Raises
        RelayError.
        """
        operation = known_operation(name)
        uid = pipeline or await self._only_pipeline()
        selected = {STORE: store, AS_OF: as_of}
        answer = await self._request(operation, uid, selected, input, key or None)
        return orjson.loads(answer) if answer else None

    async def _only_pipeline(self) -> str:
        if not self._uid:
            pipelines = orjson.loads(await self._send("GET", PREFIX))["items"]
            if len(pipelines) != 1:
                raise Refused(
                    f"{self._url} has {len(pipelines)} pipelines; give the uid or name of one"
                )
            self._uid = pipelines[0]["pipeline_uid"]
        return self._uid

    async def _call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Call an operation with the arguments of its method. Raises RelayError."""
        answer = await self._request(
            operation,
            arguments["pipeline"],
            {name: arguments.get(name, "") for name in _list_selectors(operation)},
            _changed_fields(operation, arguments),
            arguments.get("idempotency_key"),
        )
        return _parse_output(operation, answer) if answer else None

    async def _request(
        self,
        operation: Operation,
        uid: str,
        selected: Mapping[str, str],
        input: Mapping[str, Any],
        key: str | None,
    ) -> bytes:
        """Return the output of an operation as JSON. Raises RelayError.

        `selected` has the store and the time to read, "" for the default.
        """
        route = route_of(operation)
        path_fields = {field: _quote(input[field]) for field in route.path_fields}
        headers = _make_key_header(key)
        if versions := input.get(IN_HEADER):
            headers[hdrs.IF_MATCH] = ", ".join(f'"{version}"' for version in versions)
        parameters = [(name, value) for name, value in selected.items() if value]
        send = self._send_past if selected.get(AS_OF) else self._send
        body = {field: input[field] for field in route.body_fields if field in input}
        return await send(
            route.method,
            route.path.format(uid=_quote(uid), **path_fields),
            params=parameters + _make_query(operation, input, route.query_fields),
            json=body if route.body_fields else None,
            headers=headers,
        )

    async def _send(self, method: str, path: str, **request: Any) -> bytes:
        """Return the body of the response. Raises RelayError."""
        _, body = await self._exchange(method, path, **request)
        return body

    async def _send_past(self, method: str, path: str, **request: Any) -> bytes:
        """Return the body of the response of a call with `as_of`, when the server has prepared the
        state. Raises RelayError, with status 202 if that takes too long.
        """
        until_s = time.monotonic() + PAST_WAIT_S
        while True:
            response, body = await self._exchange(method, path, **request)
            if response.status != NOT_YET:
                LAST_READ.set(parse_read_state(response.headers.get(AS_OF_HEADER, "")))
                return body
            pause = response.headers.get(hdrs.RETRY_AFTER, "")
            pause_s = float(pause) if pause.isdecimal() else PAUSE_S
            if time.monotonic() + pause_s > until_s:
                raise _make_error(response.status, body)
            await asyncio.sleep(pause_s)

    async def _exchange(
        self, method: str, path: str, **request: Any
    ) -> tuple[ClientResponse, bytes]:
        """Return the response and its body. Raises RelayError."""
        try:
            async with self._session.request(method, self._address(path), **request) as response:
                body = await response.read()
        except (ClientError, TimeoutError) as error:
            raise self._no_answer(error) from error
        if response.status >= 300:
            raise _make_error(response.status, body)
        return response, body

    def _address(self, path: str) -> URL:
        return URL(self._url + path, encoded=True)

    def _no_answer(self, error: Exception) -> RelayError:
        return RelayError(0, f"{self._url} does not answer: {error}")


class BlockingClient(BlockingNouns, ReadsPast):
    """The methods of Client without `await`, for any thread.

    It runs a Client on its own event-loop thread. Use it as a context manager, or call `close`.
    """

    def __init__(self, url: str, key: str = "") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="memrelay-client", daemon=True
        )
        self._thread.start()
        self._client = Client(url, key)
        self._run(self._client.__aenter__())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread. Calling it again has no effect."""
        if self._loop.is_closed():
            return
        self._run(self._loop.shutdown_asyncgens())  # ends open `listen` iterators
        self._run(self._client.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def say(
        self,
        pipeline: str,
        text: str,
        *,
        swarm: str = "chat",
        sender: str = "User",
        wait_s: float = 10.0,
        idempotency_key: str | None = None,
    ) -> list[Message]:
        """Send a text to a swarm and return the results, as Client.say."""
        return self._run(
            self._client.say(
                pipeline,
                text,
                swarm=swarm,
                sender=sender,
                wait_s=wait_s,
                idempotency_key=idempotency_key,
            )
        )

    def deploy(
        self, bundle: dict[str, Any] | bytes, uid: str | None = None, if_match: str | None = None
    ) -> DeployedPipeline:
        """Deploy a bundle, as Client.deploy."""
        return self._run(self._client.deploy(bundle, uid, if_match))

    def listen(
        self, pipeline: str, swarm: str = "chat", *, after: str = ""
    ) -> Iterator[LiveMessage]:
        """Yield the messages of a swarm as they are published, as Client.listen."""
        messages = self._client.listen(pipeline, swarm, after=after)
        try:
            while True:
                yield self._run(_receive(messages))
        finally:
            with suppress(RuntimeError):  # the client is closed already
                self._run(messages.aclose())

    def operate(
        self,
        name: str,
        input: Mapping[str, Any],
        *,
        pipeline: str = "",
        store: str = "",
        key: str = "",
        as_of: str = "",
    ) -> Any:
        """Call an operation by its name, as Client.operate."""
        return self._run_reading(
            self._client.operate(name, input, pipeline=pipeline, store=store, key=key, as_of=as_of)
        )

    def _call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        return self._run_reading(self._client._call(operation, arguments))

    def _run_reading(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a call, and take over the state that it has read."""
        self._check_open(work)
        output, state = self._run(_with_state(work))
        if state is not None:
            LAST_READ.set(state)
        return output

    def _check_open(self, work: Coroutine[Any, Any, Result]) -> None:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed; use it inside `with connect_sync(...)`")

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        self._check_open(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def connect(url: str, key: str = "") -> Client:
    """Return a client for the server at `url`. Raises ValueError if `url` is invalid.

    Use it as `async with connect(url) as client`.
    """
    return Client(_check_url(url), key)


def connect_sync(url: str, key: str = "") -> BlockingClient:
    """Return a blocking client for the server at `url`. Raises ValueError if `url` is invalid.

    Use it as `with connect_sync(url) as client`.
    """
    return BlockingClient(_check_url(url), key)


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")) or not URL(url).host:
        raise ValueError(
            f"{url[:100]!r} is not the address of a server; write it like http://127.0.0.1:8765"
        )
    return url


def _quote(name: Any) -> str:
    # A server or proxy would resolve a path segment of dots.
    return quote(str(name), safe="") if name not in (".", "..") else name.replace(".", "%2E")


def _parse_output(operation: Operation, answer: bytes) -> Any:
    """Return the output, or the dictionary of ids that a key without the scope read gets. A write
    that a policy has stopped gives ReviewPending or Dropped.
    """
    stopped = read_stopped(orjson.loads(answer)) if operation.mutates else None
    if stopped is not None:
        return stopped
    if returns_stored_text(operation):
        fields = orjson.loads(answer)
        if fields.keys() <= set(REFERENCE_FIELDS):
            return fields
    return TypeAdapter(operation.output).validate_json(answer)


def _make_key_header(key: str | None) -> dict[str, str]:
    # The server refuses an empty key, so that a mistake does not disable the protection.
    return {} if key is None else {"Idempotency-Key": key}


def _changed_fields(operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the input that differ from their defaults in /v1."""
    defaults = {field.name: field.default for field in fields(operation.input)}
    defaults |= operation.face_defaults
    return {
        name: arguments[name]
        for name, default in defaults.items()
        if name != VOUCHED and (default is MISSING or arguments[name] != default)
    }


def _list_selectors(operation: Operation) -> list[str]:
    """Return the arguments of a method that are no fields of the input."""
    return [STORE] * selects_store(operation) + [AS_OF] * operation.takes_as_of


async def _with_state(work: Coroutine[Any, Any, Result]) -> tuple[Result, ReadState | None]:
    """Return what a call returns, and the state that it has read if it has `as_of`."""
    return await work, LAST_READ.get()


def _make_query(
    operation: Operation, input: Mapping[str, Any], names: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return the query parameters of an input. Each item of a list becomes one parameter."""
    schemas = input_schema(operation)["properties"]
    parameters = []
    for name in names:
        if name not in input:
            continue
        json_kind = json_type(schemas[name])
        values = input[name] if json_kind == "array" else [input[name]]
        parameters += [(name, _write_value(json_kind, value)) for value in values]
    return parameters


def _write_value(json_kind: str, value: Any) -> str:
    return orjson.dumps(value).decode() if json_kind in ("object", "") else str(value)


def _make_error(status: int, body: bytes) -> RelayError:
    try:
        problem = orjson.loads(body)
        return RelayError(status, problem["detail"], tuple(problem.get("faults", ())))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return RelayError(status, f"the response is not from Memrelay: {body[:200]!r}")


async def _receive(messages: AsyncGenerator[LiveMessage]) -> LiveMessage:
    """Return the next message. The loop's thread must begin the iteration to own its end."""
    return await anext(messages)


async def _next_message(socket: ClientWebSocketResponse) -> LiveMessage:
    """Return the next message. Raises RelayError if the server ends the stream."""
    frame = await socket.receive()
    if frame.type is not WSMsgType.TEXT:
        raise RelayError(0, f"the server ended the stream: {frame.extra or socket.close_code}")
    sent = orjson.loads(frame.data)
    message = decode(orjson.dumps(sent["message"]), MESSAGE_BYTES)
    return LiveMessage(sent["cursor"], sent["mid"], message)
