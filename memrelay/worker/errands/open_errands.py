"""The open errands of one group: one at a time for each conversation, in the order of messages."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import structlog

from memrelay.blocks.contract import AsyncBlock
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import Plan
from memrelay.worker.errands.execute import execute
from memrelay.worker.errands.runner import Ended, ErrandRunner
from memrelay.worker.errands.stored import order_of
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.inputs import arrival_of_id

log = structlog.stdlib.get_logger(__name__)


class OpenErrand(NamedTuple):
    """An errand without a result. `memory_id` is the store with its pending row.

    `alone` is set if the worker may have ended because of it.
    """

    pending: Pending
    memory_id: str
    plan: Plan
    alone: bool = False


@dataclass(slots=True)
class _Conversation:
    """`holders` are the ids of the errand that runs, and of those whose continuation has not
    ended. After a crash there may be several.
    """

    holders: set[str] = field(default_factory=set)
    # A heap of (arrival, order of submission, errand).
    waiting: list[tuple[tuple[int, int], int, OpenErrand]] = field(default_factory=list)


class _Place(NamedTuple):
    """The conversation of an errand, and the agent of a pipeline that waits for it."""

    conversation: str
    uid: str
    alias: str


class OpenErrands:
    """Submits errands to the runner of the worker and collects their results in `ended`.

    `wanted` wakes the group. A result stays in `ended` until the group has stored it.
    """

    # Beyond this limit, and that of `limits`, a group takes no new messages.
    MAX_BYTES = 64 << 20

    def __init__(self, runner: ErrandRunner, wanted: asyncio.Event, limits: WorkerLimits) -> None:
        self._runner, self._wanted = runner, wanted
        self._max_bytes, self._max_errands = limits.message_bytes, limits.open_errands
        self.ended: deque[tuple[OpenErrand, Ended]] = deque()
        self._conversations: dict[str, _Conversation] = {}
        # By id of an errand that is open, or whose continuation has not ended.
        self._places: dict[str, _Place] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._numbers = count()
        # Errands given to the runner.
        self._submitted: set[str] = set()
        # Errands that have begun and have no stored result, and those of them whose result is not
        # wanted.
        self._begun: dict[str, OpenErrand] = {}
        self._dropped: set[str] = set()
        # When a stopped group no longer waits for running errands, by the clock of the loop.
        self._until_s: float | None = None

    def count(self, uid: str) -> int:
        """Return how many errands of a pipeline are open."""
        return sum(self._places[key].uid == uid for key in self._sizes)

    def has_agent(self, uid: str, alias: str) -> bool:
        """Return whether an agent of a pipeline waits for an errand."""
        return any(place.uid == uid and place.alias == alias for place in self._places.values())

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached."""
        return len(self._sizes) >= self._max_errands or self._bytes >= self.MAX_BYTES

    @property
    def left_s(self) -> float | None:
        """Seconds for which a stopped group still waits; None if it does not."""
        if self._until_s is None or not self._submitted:
            return None
        left_s = self._until_s - asyncio.get_running_loop().time()
        return left_s if left_s > 0 else None

    def add(self, errand: OpenErrand) -> None:
        """Execute an errand when it is its turn."""
        pending = errand.pending
        name = self.conversation_of(pending, errand.plan)
        conversation = self._conversations.setdefault(name, _Conversation())
        size = len(pending.data) + len(pending.request or b"")
        self._places[pending.id] = _Place(name, pending.pipeline, pending.agent)
        self._sizes[pending.id] = size
        self._bytes += size
        place = (arrival_of_id(pending.root), next(self._numbers), errand)
        heappush(conversation.waiting, place)
        self._start_next(conversation)

    def hold(self, pending: Pending, plan: Plan) -> None:
        """Keep others of the conversation waiting: the continuation of this errand comes first."""
        if pending.id not in self._places:
            name = self.conversation_of(pending, plan)
            self._places[pending.id] = _Place(name, pending.pipeline, pending.agent)
            self._conversations.setdefault(name, _Conversation()).holders.add(pending.id)

    def take_result(self, errand: OpenErrand) -> None:
        """Note that a result is stored: the errand is no longer open."""
        key = errand.pending.id
        self._runner.forget(key)
        self._submitted.discard(key)
        self._begun.pop(key, None)
        self._dropped.discard(key)
        self._bytes -= self._sizes.pop(key, 0)

    def is_dropped(self, key: str) -> bool:
        """Return whether the result of an errand must not be stored."""
        return key in self._dropped

    def repeat(self, errand: OpenErrand, in_s: float) -> None:
        """Execute an errand again after a pause. Its conversation waits."""
        self._runner.forget(errand.pending.id)
        self._submitted.discard(errand.pending.id)
        asyncio.get_running_loop().call_later(max(0.0, in_s), self._submit, errand)

    def finish(self, key: str) -> None:
        """Note that the continuation of an errand has ended. The next errand begins."""
        place = self._places.pop(key, None)
        if place is None:
            return
        name = place.conversation
        conversation = self._conversations[name]
        conversation.holders.discard(key)
        self._start_next(conversation)
        if not conversation.holders and not conversation.waiting:
            del self._conversations[name]

    def drop(self, keys: set[str]) -> None:
        """Forget errands, and cancel those that have begun. The caller deletes their rows."""
        for key in keys & self._begun.keys() - self._dropped:
            self._dropped.add(key)
            self._runner.cancel(key)
        for conversation in self._conversations.values():
            kept = [one for one in conversation.waiting if one[2].pending.id not in keys]
            if len(kept) < len(conversation.waiting):
                conversation.waiting[:] = kept
                heapify(conversation.waiting)
        holders = [conversation.holders for conversation in self._conversations.values()]
        for key in (keys & self._places.keys()).difference(*holders):
            self._bytes -= self._sizes.pop(key, 0)
            del self._places[key]

    @property
    def open(self) -> list[OpenErrand]:
        """Return the errands that wait or run."""
        waiting = [
            errand
            for conversation in self._conversations.values()
            for _, _, errand in conversation.waiting
        ]
        return [*waiting, *self._begun.values()]

    def stop(self, finish_s: float) -> None:
        """Begin no errand any more, and wait at most `finish_s` for those that run."""
        self._until_s = asyncio.get_running_loop().time() + finish_s
        self._submitted = self._runner.withdraw(self._submitted)

    def leave(self) -> None:
        """End without the results that are missing. Errands that run go on."""
        self._until_s = 0.0
        self._runner.leave(self._submitted)

    def conversation_of(self, pending: Pending, plan: Plan) -> str:
        """Return the name of an errand's conversation, within which errands are in order."""
        station = plan.station(pending.agent)
        executor = station.executor if station is not None else None
        if isinstance(executor, AsyncBlock) and not executor.ordered:
            return pending.id
        return f"{pending.pipeline}/{pending.agent}/{order_of(pending)}"

    def _start_next(self, conversation: _Conversation) -> None:
        if conversation.waiting and not conversation.holders and self._until_s is None:
            _, _, errand = heappop(conversation.waiting)
            conversation.holders.add(errand.pending.id)
            self._submit(errand)

    def _submit(self, errand: OpenErrand) -> None:
        if self._until_s is not None:  # the row is found at the next start
            return
        pending = errand.pending
        if pending.id in self._dropped:
            self._end(errand, Ended(b""))
            return
        self._begun[pending.id] = errand
        station = errand.plan.station(pending.agent)
        assert station is not None  # the plan is the version that made the errand
        self._submitted.add(pending.id)
        self._runner.submit(
            pending.id,
            partial(
                execute,
                pending=pending,
                station=station,
                max_bytes=self._max_bytes,
            ),
            partial(self._end, errand),
            alone=errand.alone,
        )

    def _end(self, errand: OpenErrand, ended: Ended) -> None:
        self.ended.append((errand, ended))
        self._wanted.set()
        if ended.reason:
            pending = errand.pending
            log.warning(
                "errand_failed",
                pipeline=pending.pipeline,
                message_id=pending.root,
                agent=pending.agent,
                errand=pending.id,
                reason=ended.reason[:200],
            )
