"""Listens on the swarms' channels and appends to the inputs what others publish there."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog
from hiredis import ReplyError

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import pack
from memrelay.bus.codec import decode, encode, is_own_copy
from memrelay.bus.errors import BusError, MalformedMessage
from memrelay.bus.keys import CHANGES, PUBLIC, ask_channel, swarm_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.public_listeners import Member, log_if_first
from memrelay.bus.streams.entry import NewEntry
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.public_members import members_of
from memrelay.worker.limits import WorkerLimits

# Channels: what follows from a message that a stranger publishes on one, for the pipelines of this
# worker.


class PrivateChannel(NamedTuple):
    """Of one pipeline's swarm."""

    uid: str
    swarm: str

    def commands(self, payload: bytes) -> list[bytes]:
        """It is appended to the input; the log gets it when it has run."""
        return [NewEntry(self.uid, payload, self.swarm, published=True).pack()]


class PublicChannel(NamedTuple):
    """Every owner hears it, for its own pipelines alone."""

    swarm: str
    members: Sequence[Member]
    limits: WorkerLimits

    def commands(self, payload: bytes) -> list[bytes]:
        """It is appended to the inputs of those that listen; one of the owners writes it to the
        log, if it is an envelope."""
        appends = [
            NewEntry(member.uid, payload, self.swarm, published=True).pack()
            for member in self.members
            if member.listens
        ]
        try:
            data = encode(decode(payload, self.limits.message_bytes))
        except MalformedMessage:
            return appends
        return [*appends, log_if_first(self.swarm, data, self.members, self.limits.log_length)]


Channel = PrivateChannel | PublicChannel


def channels_of(plans: Iterable[Plan], limits: WorkerLimits) -> dict[bytes, Channel]:
    """By name, those of all swarms of these pipelines."""
    found: dict[bytes, Channel] = {}
    public: dict[str, list[Member]] = {}
    for plan in plans:
        private = plan.private_names.values()
        found |= {
            swarm_key(plan.uid, swarm).encode(): PrivateChannel(plan.uid, swarm)
            for swarm in private
        }
        for member in members_of(plan):
            public.setdefault(member.swarm, []).append(member)
    return found | {
        swarm_key(PUBLIC, swarm).encode(): PublicChannel(swarm, members, limits)
        for swarm, members in public.items()
    }


log = structlog.stdlib.get_logger(__name__)
Ask = Callable[[bytes], None]  # gets one question
CHANNEL_OF_CHANGES = CHANGES.encode()


class Subscriber:
    """What is published while nobody listens is lost, as it is with any channel; XADD to the input
    is not."""

    def __init__(
        self, writer: FencedWriter, echo: EchoFilter, changed: asyncio.Event, limits: WorkerLimits
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
                log.error("published_message_lost", reason=str(fault))

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
