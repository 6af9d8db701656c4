"""Listens on the swarms' channels and appends to the inputs what others publish there."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hiredis import ReplyError

from bus.codec import is_own_copy
from bus.connection import Connection
from bus.echo import Echo
from bus.errors import BusError
from bus.fenced import FencedWriter
from bus.resp import pack
from bus.wire import CHANGES, ask_channel
from pipelines.plan import Plan
from worker.channels import Channel, channels_of
from worker.limits import WorkerLimits

log = logging.getLogger(__name__)
Ask = Callable[[bytes], None]  # gets one question
CHANNEL_OF_CHANGES = CHANGES.encode()


class Listener:
    """What is published while nobody listens is lost, as it is with any channel; XADD to the input
    is not."""

    def __init__(
        self, writer: FencedWriter, echo: Echo, changed: asyncio.Event, limits: WorkerLimits
    ) -> None:
        """Appends through `writer`, so that of two owners who hear a message one appends it.

        `changed` is set when a deploy is announced. `hear` is the subscriber's callback.
        """
        self._writer, self._echo, self._changed, self._limits = writer, echo, changed, limits
        self._channels: dict[bytes, Channel] = {}
        self._asks: dict[bytes, Ask] = {}  # channel -> who answers what is asked there
        self._appending: set[asyncio.Future[list[Any]]] = set()

    def hear(self, channel: bytes, payload: bytes) -> None:
        """One message on a channel: our own copies pass, everything else is new, whatever it
        claims."""
        if is_own_copy(payload):
            self._echo.passed(channel, payload)
            return
        if channel == CHANNEL_OF_CHANGES:
            self._changed.set()
        if channel in self._asks:
            self._asks[channel](payload)
        if channel not in self._channels or not (
            commands := self._channels[channel].commands(payload)
        ):
            return
        future = self._writer.send(commands, len(commands))
        self._appending.add(future)
        future.add_done_callback(self._appended)

    def _appended(self, future: asyncio.Future[list[Any]]) -> None:
        """A message whose append failed is lost here: asking again could append it twice."""
        self._appending.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        for fault in [error] if error is not None else future.result():
            if isinstance(fault, BusError | ReplyError):
                log.error("published_message_lost", extra={"reason": str(fault)})

    async def serve(
        self, subscribed: Connection, plans: list[Plan], asks: Mapping[str, Ask]
    ) -> None:
        """From now on the swarms of these pipelines, and no others; `asks` answer what is asked of
        each, by its uid.

        Raises BusUnavailable, and BusRefused where this user may not listen.
        """
        wanted, answered = (
            channels_of(plans, self._limits),
            {ask_channel(uid).encode(): ask for uid, ask in asks.items()},
        )
        now, then = wanted.keys() | answered.keys(), self._channels.keys() | self._asks.keys()
        added, dropped = now - then, then - now
        self._channels, self._asks = wanted, answered
        for command, channels in (("SUBSCRIBE", added), ("UNSUBSCRIBE", dropped)):
            # a command each: of one that is refused there is one answer, however many channels it
            # names
            if channels:
                commands = b"".join(pack(command, channel) for channel in sorted(channels))
                await subscribed.send(commands, replies=len(channels))
