"""What is said in public is appended to the input of every pipeline that listens, under its `mid`:
a second time has no effect.

It leaves before logs, live copies and acknowledgement do, in the same MULTI; where another server
holds the inputs it could
leave by itself, and the order would be enough.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memrelay.bus.client.connection import Connection
from memrelay.bus.codec import mid_of
from memrelay.bus.lease.fencing import MOST_BYTES, FencedWriter, log_refusals
from memrelay.bus.public_listeners import listeners_of
from memrelay.bus.public_swarms import is_public, swarm_and_hop
from memrelay.bus.streams.entry import NewEntry
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit


class _Spoken(NamedTuple):
    """One message that was said in public."""

    swarm: str
    hop: int
    mid: str
    data: bytes
    began: str  # pipeline and id of the input with which it began
    by: str  # the uid of the pipeline that said it

    def to(self, uid: str) -> bytes:
        """The command by which a pipeline hears it. It need not be said again there."""
        return NewEntry(
            uid,
            self.data,
            self.swarm,
            producer_id=self.mid,
            published=True,
            hop=str(self.hop),
            origin=self.began,
        ).pack()


class PublicFanout:
    """From a worker's pipelines to all."""

    def __init__(
        self, control: Connection, writer: FencedWriter, spread: PublicMessageLimit
    ) -> None:
        """Who listens is asked over `control`; `spread` is told how much was said."""
        self._control, self._writer, self._spread = control, writer, spread

    async def appends(self, outcomes: Iterable[Outcome]) -> list[bytes]:
        """The commands, for the MULTI in which the outcomes leave. What is too much for one has
        left and is confirmed.

        Raises BusUnavailable, BusRefused or Fenced: then nobody may be told that the outcomes are
        done.
        """
        waiting: list[bytes] = []
        size, known = 0, dict[str, list[str]]()
        for spoken in _spoken(outcomes, self._spread):
            for uid in await self._listeners(spoken.swarm, known):
                waiting.append(spoken.to(uid))
                size += len(waiting[-1])
                if size > MOST_BYTES:
                    log_refusals(await self._writer.send(waiting, len(waiting)), [spoken.by])
                    waiting, size = [], 0
        return waiting

    async def _listeners(self, swarm: str, known: dict[str, list[str]]) -> list[str]:
        """Asked for once a batch."""
        if swarm not in known:
            known[swarm] = await listeners_of(self._control, swarm)
        return known[swarm]


def _spoken(outcomes: Iterable[Outcome], spread: PublicMessageLimit) -> Iterator[_Spoken]:
    """What these say in public, in order. Their ids get the pipeline's uid, since all pipelines
    share a public swarm's log."""
    for outcome in outcomes:
        public = [
            (number, name, data)
            for number, (name, data) in enumerate(outcome.said)
            if is_public(name)
        ]
        began = spread.add(outcome, len(public))
        if public:
            outcome.said_by = f"{outcome.uid}/{outcome.said_by or outcome.id}"
        for number, name, data in public:
            yield _Spoken(
                *swarm_and_hop(name),
                mid_of(outcome.said_by, number, data),
                data,
                began,
                outcome.uid,
            )
