"""Subscribes to the channels of swarms, and appends what clients publish there to the inputs."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import pack
from memrelay.bus.codec import decode, encode, is_own_copy
from memrelay.bus.errors import BusError, MalformedMessage
from memrelay.bus.keys import CHANGES, PUBLIC, ask_channel, swarm_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.message import envelope_limit
from memrelay.bus.public_listeners import Member, pack_log_if_first
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.log_size import LogTrimmer
from memrelay.logs import get_logger
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.public_members import make_members
from memrelay.worker.limits import WorkerLimits

log = get_logger(__name__)
# Takes one read-only call.
QueryHandler = Callable[[bytes], None]
CHANNEL_OF_CHANGES = CHANGES.encode()


class PrivateChannel(NamedTuple):
    """The channel of a pipeline's swarm."""

    uid: str
    swarm: str

    def commands(self, payload: bytes) -> list[bytes]:
        """Return the append to the input. The swarm's log gets the message when it has run."""
        return [NewEntry(self.uid, payload, self.swarm, published=True).pack()]


class PublicChannel(NamedTuple):
    """The channel of a public swarm. Each owner appends only to the inputs of its pipelines."""

    swarm: str
    members: Sequence[Member]
    limits: WorkerLimits

    def commands(self, payload: bytes) -> list[bytes]:
        """Return the appends, and the log entry, which one of all owners writes.

        A payload that is no envelope gets no log entry.
        """
        appends = [
            NewEntry(member.uid, payload, self.swarm, published=True).pack()
            for member in self.members
            if member.listens
        ]
        try:
            data = encode(decode(payload, self.limits.message_bytes))
        except MalformedMessage:
            return appends
        return [*appends, pack_log_if_first(self.swarm, data, self.members, self.limits.log_length)]


Channel = PrivateChannel | PublicChannel


def list_channels(plans: Iterable[Plan], limits: WorkerLimits) -> dict[bytes, Channel]:
    """Return the channels of all swarms of these pipelines, by name."""
    found: dict[bytes, Channel] = {}
    public: dict[str, list[Member]] = {}
    for plan in plans:
        private = plan.private_names.values()
        found |= {
            swarm_key(plan.uid, swarm).encode(): PrivateChannel(plan.uid, swarm)
            for swarm in private
        }
        for member in make_members(plan):
            public.setdefault(member.swarm, []).append(member)
    return found | {
        swarm_key(PUBLIC, swarm).encode(): PublicChannel(swarm, members, limits)
        for swarm, members in public.items()
    }


class Subscriber:
    """Receives what is published on the channels of a worker's pipelines.

    A message that is published while no worker subscribes is lost, as on any channel. Appends go
    through the fenced `writer`, so of two owners only one appends. `changed` is set when the
    control plane announces a change. `log_trimmer` bounds the logs of public swarms.
    """

    def __init__(
        self,
        writer: FencedWriter,
        echo: EchoFilter,
        changed: asyncio.Event,
        limits: WorkerLimits,
        log_trimmer: LogTrimmer,
    ) -> None:
        self._log_trimmer = log_trimmer
        self._writer, self._echo, self._changed, self._limits = writer, echo, changed, limits
        self._most_bytes = envelope_limit(limits.message_bytes) + 1
        self._channels: dict[bytes, Channel] = {}
        self._query_handlers: dict[bytes, QueryHandler] = {}
        self._appending: set[asyncio.Future[list[Any]]] = set()

    def receive(self, channel: bytes, payload: bytes) -> None:
        """Handle one message: drop the worker's own copies, and append everything else."""
        if is_own_copy(payload):
            self._echo.passed(channel, payload)
            return
        if channel == CHANNEL_OF_CHANGES:
            self._changed.set()
        if channel in self._query_handlers:
            self._query_handlers[channel](payload)
        if channel not in self._channels:
            return
        # One byte too many is enough for the dead letter of a message that is too long.
        if not (commands := self._channels[channel].commands(payload[: self._most_bytes])):
            return
        future = self._writer.send(commands, len(commands))
        if isinstance(self._channels[channel], PublicChannel):
            self._log_trimmer.note([channel.decode()], min(len(payload), self._most_bytes))
        self._appending.add(future)
        future.add_done_callback(self._finish_append)

    def _finish_append(self, future: asyncio.Future[list[Any]]) -> None:
        """Log a failed append. The message is lost: a second append could duplicate it."""
        self._appending.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        for fault in [error] if error is not None else future.result():
            if isinstance(fault, BusError | ReplyError):
                log.error("published_message_lost", reason=str(fault))

    async def serve(
        self,
        connection: Connection,
        plans: list[Plan],
        query_handlers: Mapping[str, QueryHandler],
    ) -> None:
        """Subscribe to exactly the channels of these pipelines; `query_handlers` are by uid.

        Raises BusUnavailable, and BusRefused if the user may not subscribe.
        """
        channels = list_channels(plans, self._limits)
        handlers = {ask_channel(uid).encode(): handle for uid, handle in query_handlers.items()}
        wanted = channels.keys() | handlers.keys()
        subscribed = self._channels.keys() | self._query_handlers.keys()
        self._channels, self._query_handlers = channels, handlers
        for command, names in (
            ("SUBSCRIBE", wanted - subscribed),
            ("UNSUBSCRIBE", subscribed - wanted),
        ):
            # One command per channel: a refused one has one reply, however many names it has.
            if names:
                commands = b"".join(pack(command, name) for name in sorted(names))
                await connection.send(commands, replies=len(names))
