"""Appends messages on public swarms to the input of every pipeline that listens.

The message's `mid` is the idempotency key, so a repeated append has no effect. The appends lead the
MULTI with the logs, live copies and acknowledgements. If another server held the inputs, they could
be sent first on their own: only the order matters.
"""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import make_mid
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.lease.fencing import MOST_BYTES, FencedWriter, log_refusals
from memrelay.bus.public_listeners import list_listeners
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.via import NO_VIA, Via
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit


class PublicMessage(NamedTuple):
    """A message on a public swarm.

    `origin` is the pipeline and id of the input that started the chain, `uid` the publisher.
    """

    swarm: PublicSwarm
    mid: str
    data: bytes
    origin: str
    uid: str
    traceparent: str
    via: Via

    def make_entry(self, uid: str) -> NewEntry:
        """Return the entry with which a pipeline gets the message."""
        return NewEntry(
            uid,
            self.data,
            self.swarm.name,
            producer_id=self.mid,
            published=True,
            hop=str(self.swarm.hop),
            origin=self.origin,
            traceparent=self.traceparent,
            via=self.via,
        )


class PublicFanout:
    """Sends the public messages of a worker's pipelines to all listeners.

    `control` reads the listeners. `public_limit` counts the messages.
    """

    def __init__(
        self,
        control: ReconnectingConnection,
        writer: FencedWriter,
        public_limit: PublicMessageLimit,
    ) -> None:
        self._control, self._writer, self._public_limit = control, writer, public_limit

    async def pack_appends(self, outcomes: Iterable[Outcome]) -> list[bytes]:
        """Return the commands for the MULTI in which the outcomes leave.

        Commands beyond the size of one MULTI are sent and confirmed first. Raises BusUnavailable,
        BusRefused and Fenced; then the outcomes must not be acknowledged.
        """
        waiting: list[bytes] = []
        size, listeners = 0, dict[str, list[str]]()
        for message in find_public(outcomes, self._public_limit):
            swarm = message.swarm.name
            if swarm not in listeners:
                listeners[swarm] = await list_listeners(self._control, swarm)
            for uid in listeners[swarm]:
                waiting.append(message.make_entry(uid).pack())
                size += len(waiting[-1])
                if size > MOST_BYTES:
                    log_refusals(await self._writer.send(waiting, len(waiting)), [message.uid])
                    waiting, size = [], 0
        return waiting


def find_public(
    outcomes: Iterable[Outcome], public_limit: PublicMessageLimit
) -> Iterator[PublicMessage]:
    """Yield the public messages in order.

    Their ids get the pipeline's uid in front, because all pipelines share a public swarm's log.
    """
    for outcome in outcomes:
        public = [
            (number, swarm, data)
            for number, (swarm, data) in zip(
                outcome.numbers or count(), outcome.messages, strict=False
            )
            if isinstance(swarm, PublicSwarm)
        ]
        origin = public_limit.add(outcome, len(public))
        if public:
            outcome.publish_id = f"{outcome.uid}/{outcome.publish_id or outcome.id}"
        for number, swarm, data in public:
            mid = make_mid(outcome.publish_id, number, data)
            # Another pipeline must not trust the signatures that this one checks.
            via = Via(key=outcome.via.key) if outcome.via.key else NO_VIA
            about = origin, outcome.uid, outcome.traceparent, via
            yield PublicMessage(swarm, mid, data, *about)
