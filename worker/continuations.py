"""Continuations: what a group runs beside its entries. Steps in another store, and inputs that wait
to be tried again.

A store keeps each of them until what it led to is on the bus.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from memory.sqlite.pending import Pending
from worker.agenda import Agenda
from worker.errors import TooMany
from worker.inputs import Input, Work, from_pending
from worker.outcome import Letter, Outcome
from worker.patience import Patience
from worker.retries import PutOff
from worker.settlement import Settlements
from worker.surroundings import Surroundings
from worker.upkeep import forget_continuations, kept_continuations

log = logging.getLogger(__name__)


class Continuations:
    """Those of one group."""

    def __init__(self, todo: deque[Work], patience: Patience, shared: Surroundings) -> None:
        """What is due is added to `todo`."""
        self._todo, self._patience, self._shared = todo, patience, shared
        self.origins: dict[str, str] = {}  # a continuation's key -> the store that keeps it
        self.agenda, self.settlements = Agenda(), Settlements()
        self.may_say_in_public = False  # some of a version of the bundle with public swarms

    async def load(self, stores: Sequence[str], uids: Collection[str]) -> None:
        """Everything that these stores still have to run for these pipelines."""
        for pending, memory_id in await self._patience.in_thread(
            partial(kept_continuations, names=stores, uids=uids)
        ):
            if pending.id not in self.origins:  # else it was put off a moment ago
                await self._schedule(pending, memory_id)

    async def follow(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Schedules what a batch leads to further, and returns the outcomes of what is given up at
        once."""
        given_up = []
        for outcome in outcomes:
            if (
                self.origins and not outcome.entry
            ):  # a replay has an entry, though its key may be a continuation's
                outcome.origin = self.origins.get(outcome.key, "")
            for pending in outcome.continuations:
                if (refused := await self._schedule(pending, outcome.store)) is not None:
                    given_up.append(refused)
        return given_up

    async def put_off(self, put_off: Sequence[PutOff]) -> None:
        """What its blocks want to be tried again has its time."""
        for one in put_off:
            await self._schedule(one.pending, one.memory_id)
        if put_off:
            self._shared.tally.count_retried(one.pending.pipeline for one in put_off)
            first = put_off[0]
            log.warning(
                "messages_put_off",
                extra={
                    "count": len(put_off),
                    "pipeline": first.pending.pipeline,
                    "message_id": first.pending.root,
                    "attempts": first.pending.attempts,
                    "reason": first.reason[:200],
                },
            )

    async def forget(self, outcomes: Iterable[Outcome]) -> None:
        """What these led to is on the bus: the stores that kept them may forget them, before the
        stores that ran them do."""
        finished: dict[str, list[str]] = {}
        for outcome in outcomes if self.origins else ():
            if origin := self.origins.pop(outcome.key, ""):
                finished.setdefault(origin, []).append(outcome.key)
        for memory_id, keys in finished.items():
            await self._patience.in_thread(partial(forget_continuations, name=memory_id, keys=keys))
            self._shared.checkpoint("continuations forgotten")

    def drop(self, unwanted: Callable[[Input], bool]) -> None:
        """Forgets some of what waits to be tried again; their stores forget it too."""
        for work in self.agenda.drop(unwanted):
            self.origins.pop(work.key, None)

    async def _schedule(self, pending: Pending, memory_id: str) -> Outcome | None:
        """It runs after what is under way, under the version of the bundle that it began with.

        Returns its outcome where it is given up instead: its cascade has become too large.
        """
        limits = self._shared.limits
        plan = await self._patience.attempt(
            partial(self._shared.shelf.version, pending.pipeline, pending.bundle)
        )
        if plan is None:
            log.warning(
                "continuation_without_bundle",
                extra={"message_id": pending.id, "bundle": pending.bundle},
            )
            return None
        self.may_say_in_public = self.may_say_in_public or bool(plan.public)
        self.origins[pending.id] = memory_id
        if (
            self.settlements.expect(f"{pending.pipeline}/{pending.root}", pending.id)
            > limits.max_cascade
        ):
            return _too_many(pending, memory_id, limits.max_cascade)
        work, in_s = from_pending(pending, plan), pending.due / 1000 - time.time()
        if (
            pending.attempts and in_s > 0
        ):  # never for longer than it was meant to be, whatever was done to the clock
            self.agenda.add(work, len(pending.data), min(in_s, limits.longest_pause_s))
        else:
            self._todo.append(work)
        return None


def _too_many(pending: Pending, memory_id: str, most: int) -> Outcome:
    letter = Letter(
        str(TooMany(most)),
        pending.swarm,
        pending.data,
        pending.bundle,
        pending.agent,
        hop=str(pending.hop),
    )
    return Outcome(
        pending.id,
        pending.id.partition("/")[2],
        pending.pipeline,
        pending.root,
        pending.reply,
        origin=memory_id,
        letter=letter,
    )
