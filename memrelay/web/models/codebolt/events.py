"""The events of Codebolt's API: the WebSocket that sends them, and the publication of live events.

One reader serves all listeners of a pipeline. It reads the feed after a signal of the worker. Live
events are published by the web process that served a call, and all web processes send them to
their clients. They are not stored. Requests do not wait for them: one task publishes the events of
a process in order.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import orjson
from aiohttp import hdrs, web

from memrelay.bus.errors import BusError, BusUnavailable
from memrelay.bus.keys import changed_channel, live_channel
from memrelay.bus.request import NewCall
from memrelay.logs import get_logger
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.records.data import LARGEST
from memrelay.memory.validation import parse_number
from memrelay.web.api.answers import refuse_unknown
from memrelay.web.api.listener import Deliver, Stream, StreamPosition, Unfollow, serve_stream
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller
from memrelay.web.models.codebolt.errors import CODEBOLT, CODEBOLT_API
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.errors import BadRequest
from memrelay.web.services import SERVICES, Services, get_services

PIPELINE_EXECUTED = "persistentMemory:pipeline-executed"
ASSEMBLY_STARTED = "contextAssembly:started"
RULES_EVALUATED = "contextAssembly:rulesEvaluated"
PIPELINE_COMPLETE = "contextAssembly:pipelineComplete"
ASSEMBLY_COMPLETE = "contextAssembly:complete"
ASSEMBLY_ERROR = "contextAssembly:error"


# Events that wait to be published; further ones are lost.
MAX_WAITING = 1000
log = get_logger(__name__)
routes = web.RouteTableDef()
PATH = "/persistent-memory/events"
CHANGES = "recipes.changes"
# The actor of the reads that serve all listeners of a pipeline.
ACTOR = "events"
PAGE_SIZE = 100
# Before the feed is read again after a failure.
PAUSE_S = 1.0
FEEDS = web.AppKey("feeds", dict[str, "_Feed"])
PINGS = ("ping", {"event": "ping"}, {"type": "ping"})


class _LiveEvent(NamedTuple):
    uid: str
    name: str
    message: bytes


_WAITING = web.AppKey("live_events", asyncio.Queue[_LiveEvent])


def publish_live(
    request: web.Request, uid: str, event: str, data: Mapping[str, Any] | list[Any]
) -> None:
    """Send an event to all clients that follow the events of a pipeline now.

    Without a server nothing is sent, since the call that it reports has succeeded.
    """
    now = format_time(time.time_ns() // 1_000_000)
    message = orjson.dumps({"event": event, "data": data, "timestamp": now})
    try:
        request.config_dict[_WAITING].put_nowait(_LiveEvent(uid, event, message))
    except asyncio.QueueFull:
        _log_loss(uid, event, f"{MAX_WAITING} events wait already")


async def publish_forever(app: web.Application) -> AsyncIterator[None]:
    """Publish the live events while the application runs."""
    app[_WAITING] = asyncio.Queue(MAX_WAITING)
    publishing = asyncio.create_task(_publish(app))
    yield
    publishing.cancel()


async def _publish(app: web.Application) -> None:
    waiting, line = app[_WAITING], app[SERVICES].line
    while True:
        event = await waiting.get()
        try:
            await line.call("PUBLISH", live_channel(event.uid), event.message)
        except BusError as error:
            _log_loss(event.uid, event.name, str(error))


def _log_loss(uid: str, name: str, reason: str) -> None:
    log.warning("live_event_lost", pipeline=uid, event_name=name, reason=reason)


class Event(NamedTuple):
    """An event as JSON. `number` is that of its change; None for one that no store keeps."""

    number: int | None
    data: bytes

    @property
    def place(self) -> StreamPosition | None:
        """Return the position in the change feed."""
        return None if self.number is None else (self.number, 0)


PONG = Event(None, b'{"event":"pong"}')


@CODEBOLT_API.serve(
    routes,
    hdrs.METH_GET,
    PATH,
    CHANGES,
    {
        101: "A WebSocket that sends an object with `event`, `data` and `timestamp` per event.",
        404: "The pipeline does not exist.",
        422: "`after` is higher than the last change.",
        503: "No worker serves the pipeline. Retry-After tells when to retry.",
        504: "No answer in time. Retry-After tells when to retry.",
    },
    errors={},
    query={"after": "The `cursor` of the last received event; by default only new events."},
)
async def follow_events(request: web.Request) -> web.StreamResponse:
    """Send {event, data, timestamp} for each change from now on, or after `after=CURSOR`.

    Events of the change feed have a `cursor`.
    """
    refuse_unknown(request, ("after", CODEBOLT.pipeline_parameter))
    after = _parse_after(request.query.get("after", ""))
    uid = await find_pipeline(request)
    get_caller(request).check_any(("read",), uid)
    if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
        raise BadRequest(f"{PATH} is a WebSocket; connect with ws:// or wss://")
    page = await call_operation(request, CHANGES, uid, {"after": after or 0, "limit": 1})
    reached = page["last"] if after is None else after
    feed = request.config_dict[FEEDS].setdefault(uid, _Feed(get_services(request), uid))
    return await serve_stream(request, _Events(feed, request), (reached, 0))


def _parse_after(text: str) -> int | None:
    if not text:
        return None
    after = parse_number(text, LARGEST + 1, len(str(LARGEST)))
    if after > LARGEST:
        raise BadRequest("`after` is the `cursor` of an event, a number such as 42")
    return after


class _Events(Stream[Event]):
    """The events of a pipeline, for one listener."""

    def __init__(self, feed: "_Feed", request: web.Request) -> None:
        super().__init__(feed.uid)
        self._feed, self._feeds = feed, request.config_dict[FEEDS]

    async def follow(self, deliver: Deliver[Event]) -> Unfollow:
        await self._feed.add(deliver)
        return partial(self._unfollow, deliver)

    def _unfollow(self, deliver: Deliver[Event]) -> None:
        if self._feed.remove(deliver) and self._feeds.get(self.uid) is self._feed:
            del self._feeds[self.uid]

    async def read_page(self, after: StreamPosition) -> tuple[list[Event], bool]:
        events, _, has_more = await self._feed.read(after[0])
        return events, has_more

    def to_frame(self, message: Event) -> bytes:
        return message.data

    def to_cursor(self, place: StreamPosition) -> str:
        return str(place[0])

    def answer(self, text: str) -> Event | None:
        try:
            is_ping = text == "ping" or orjson.loads(text) in PINGS
        except orjson.JSONDecodeError:
            is_ping = False
        return PONG if is_ping else None


class _Feed:
    """Reads the changes of one pipeline once for all its listeners in this process."""

    def __init__(self, services: Services, uid: str) -> None:
        self._services, self.uid = services, uid
        self._store = built_in_store(uid, "recipes")
        self._listeners: list[Deliver[Event]] = []
        self._wanted = asyncio.Event()
        self._reached = 0
        self._reading: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._ends: list[Callable[[], None]] = []

    async def add(self, deliver: Deliver[Event]) -> None:
        """Call `deliver` with new events. Raises BusError."""
        self._listeners.append(deliver)
        with ExitStack() as undo:
            undo.callback(self.remove, deliver)
            async with self._opening:
                if self._reading is None:
                    await self._open()
            undo.pop_all()

    def remove(self, deliver: Deliver[Event]) -> bool:
        """End the calls, and return whether no listener is left."""
        if deliver in self._listeners:
            self._listeners.remove(deliver)
        if self._listeners:
            return False
        self._stop_listening()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        return True

    async def read(self, after: int) -> tuple[list[Event], int, bool]:
        """Return events after a number, the next number, and whether there may be more.

        Raises BusError.
        """
        page = await self._call(after, PAGE_SIZE)
        return list(map(_to_event, page["items"])), page["next"], page["next"] < page["last"]

    async def _call(self, after: int, limit: int) -> dict[str, Any]:
        """Return a page of recipes.changes. Raises BusError."""
        data = orjson.dumps({"after": after, "limit": limit})
        call = NewCall(self.uid, CHANGES, data, mutates=False, actor=ACTOR)
        services = self._services
        answer = await services.requester.call(call, services.options.call_timeout_s)
        if (error := answer.get("error")) is not None:
            raise BusUnavailable(str(error["detail"]))
        page: dict[str, Any] = answer["output"]
        return page

    def _stop_listening(self) -> None:
        for end in self._ends:
            end()
        self._ends.clear()

    async def _open(self) -> None:
        self._stop_listening()
        channels = self._services.channels
        self._ends.append(await channels.listen(changed_channel(self.uid), self._hear_change))
        self._ends.append(await channels.listen(live_channel(self.uid), self._hear_live))
        self._reached = (await self._call(0, 1))["last"]
        self._reading = asyncio.create_task(self._run())

    def _hear_change(self, payload: bytes | None) -> None:
        # Without a payload, signals may have been lost.
        if payload is None or self._store.encode() in payload:
            self._wanted.set()

    def _hear_live(self, payload: bytes | None) -> None:
        if payload is not None:
            self._deliver([Event(None, payload)])

    def _deliver(self, events: list[Event]) -> None:
        for deliver in tuple(self._listeners):
            deliver(events)

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._read_on()
            except BusError as error:
                log.warning("events_paused", pipeline=self.uid, reason=str(error), pause_s=PAUSE_S)
                await asyncio.sleep(PAUSE_S)
                self._wanted.set()

    async def _read_on(self) -> None:
        """Deliver what is new in the feed."""
        has_more = True
        while has_more:
            events, self._reached, has_more = await self.read(self._reached)
            if events:
                self._deliver(events)


def _to_event(item: dict[str, Any]) -> Event:
    number = item["n"]
    shown = {
        "event": item["event"],
        "data": item["data"],
        "timestamp": item["timestamp"],
        "cursor": str(number),
    }
    return Event(number, orjson.dumps(shown))
