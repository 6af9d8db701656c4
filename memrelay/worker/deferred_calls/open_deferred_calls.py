"""The open deferred calls of a group: one at a time per conversation, in the order of messages."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from memrelay.logs import get_logger
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import Plan
from memrelay.worker.deferred_calls.runner import DeferredCallRunner, Ended
from memrelay.worker.deferred_calls.stored import name_conversation
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.inputs import parse_arrival

log = get_logger(__name__)


class OpenDeferredCall(NamedTuple):
    """A deferred call without a result. `memory_id` is the store with its pending row.

    `alone` is set if the worker may have ended because of it.
    """

    pending: Pending
    memory_id: str
    plan: Plan
    alone: bool = False


@dataclass(slots=True)
class _Conversation:
    """`holders` are the ids of the deferred call that runs, and of those whose continuation has not
    ended. After a crash there may be several.
    """

    holders: set[str] = field(default_factory=set)
    # A heap of (arrival, order of submission, deferred_call).
    waiting: list[tuple[tuple[int, int], int, OpenDeferredCall]] = field(default_factory=list)


class _Place(NamedTuple):
    """The conversation of a deferred call, and the agent of a pipeline that waits for it."""

    conversation: str
    uid: str
    alias: str


class OpenDeferredCalls:
    """Submits deferred calls to the runner of the worker and collects their results in `ended`.

    `wanted` wakes the group. A result stays in `ended` until the group has stored it.
    """

    # Beyond this limit, and that of `limits`, a group takes no new messages.
    MAX_BYTES = 64 << 20

    def __init__(
        self, runner: DeferredCallRunner, wanted: asyncio.Event, limits: WorkerLimits
    ) -> None:
        self._runner, self._wanted = runner, wanted
        self._max_bytes, self._max_deferred_calls = limits.message_bytes, limits.open_deferred_calls
        self.ended: deque[tuple[OpenDeferredCall, Ended]] = deque()
        self._conversations: dict[str, _Conversation] = {}
        # By id of a deferred call that is open, or whose continuation has not ended.
        self._places: dict[str, _Place] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._numbers = count()
        # Deferred calls given to the runner.
        self._submitted: set[str] = set()
        # Deferred calls that have begun and have no stored result, and those of them whose result
        # is not wanted.
        self._begun: dict[str, OpenDeferredCall] = {}
        self._dropped: set[str] = set()
        # When a stopped group no longer waits for running deferred calls, by the clock of the loop.
        self._until_s: float | None = None

    def count(self, uid: str) -> int:
        """Return how many deferred calls of a pipeline are open."""
        return sum(self._places[key].uid == uid for key in self._sizes)

    def has_agent(self, uid: str, alias: str) -> bool:
        """Return whether an agent of a pipeline waits for a deferred call."""
        return any(place.uid == uid and place.alias == alias for place in self._places.values())

    @property
    def is_full(self) -> bool:
        return len(self._sizes) >= self._max_deferred_calls or self._bytes >= self.MAX_BYTES

    @property
    def left_s(self) -> float | None:
        """Seconds for which a stopped group still waits; None if it does not."""
        if self._until_s is None or not self._submitted:
            return None
        left_s = self._until_s - asyncio.get_running_loop().time()
        return left_s if left_s > 0 else None

    def add(self, deferred_call: OpenDeferredCall) -> None:
        """Execute a deferred call when it is its turn."""
        pending = deferred_call.pending
        name = name_conversation(pending, deferred_call.plan)
        conversation = self._conversations.setdefault(name, _Conversation())
        size = len(pending.data) + len(pending.request or b"")
        self._places[pending.id] = _Place(name, pending.pipeline, pending.agent)
        self._sizes[pending.id] = size
        self._bytes += size
        place = (parse_arrival(pending.root), next(self._numbers), deferred_call)
        heappush(conversation.waiting, place)
        self._start_next(conversation)

    def hold(self, pending: Pending, plan: Plan) -> None:
        """Keep others of the conversation waiting until the continuation of this call ends."""
        if pending.id not in self._places:
            name = name_conversation(pending, plan)
            self._places[pending.id] = _Place(name, pending.pipeline, pending.agent)
            self._conversations.setdefault(name, _Conversation()).holders.add(pending.id)

    def take_result(self, deferred_call: OpenDeferredCall) -> None:
        """Note that a result is stored: the deferred call is no longer open."""
        key = deferred_call.pending.id
        self._runner.forget(key)
        self._submitted.discard(key)
        self._begun.pop(key, None)
        self._dropped.discard(key)
        self._bytes -= self._sizes.pop(key, 0)

    def is_dropped(self, key: str) -> bool:
        """Return whether the result of a deferred call must not be stored."""
        return key in self._dropped

    def repeat(self, deferred_call: OpenDeferredCall, in_s: float) -> None:
        """Execute a deferred call again after a pause. Its conversation waits."""
        self._runner.forget(deferred_call.pending.id)
        self._submitted.discard(deferred_call.pending.id)
        asyncio.get_running_loop().call_later(max(0.0, in_s), self._submit, deferred_call)

    def finish(self, key: str) -> None:
        """Note that the continuation of a deferred call has ended. The next call begins."""
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
        """Forget deferred calls and cancel those that run. The caller deletes their rows."""
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
    def open(self) -> list[OpenDeferredCall]:
        """Return the deferred calls that wait or run."""
        waiting = [
            deferred_call
            for conversation in self._conversations.values()
            for _, _, deferred_call in conversation.waiting
        ]
        return [*waiting, *self._begun.values()]

    def stop(self, finish_s: float) -> None:
        """Begin no deferred call any more, and wait at most `finish_s` for those that run."""
        self._until_s = asyncio.get_running_loop().time() + finish_s
        self._submitted = self._runner.withdraw(self._submitted)

    def leave(self) -> None:
        """End without the results that are missing. Deferred calls that run go on."""
        self._until_s = 0.0
        self._runner.leave(self._submitted)

    def _start_next(self, conversation: _Conversation) -> None:
        if conversation.waiting and not conversation.holders and self._until_s is None:
            _, _, deferred_call = heappop(conversation.waiting)
            conversation.holders.add(deferred_call.pending.id)
            self._submit(deferred_call)

    def _submit(self, deferred_call: OpenDeferredCall) -> None:
        if self._until_s is not None:  # the row is found at the next start
            return
        pending = deferred_call.pending
        if pending.id in self._dropped:
            self._end(deferred_call, Ended(b""))
            return
        self._begun[pending.id] = deferred_call
        subscriber = deferred_call.plan.subscriber(pending.agent)
        assert subscriber is not None  # the plan is the version that made the deferred call
        self._submitted.add(pending.id)
        self._runner.submit(
            pending.id,
            partial(
                self._runner.execute,
                pending=pending,
                subscriber=subscriber,
                max_bytes=self._max_bytes,
            ),
            partial(self._end, deferred_call),
            alone=deferred_call.alone,
        )

    def _end(self, deferred_call: OpenDeferredCall, ended: Ended) -> None:
        self.ended.append((deferred_call, ended))
        self._wanted.set()
        if ended.reason:
            pending = deferred_call.pending
            log.warning(
                "deferred_call_failed",
                pipeline=pending.pipeline,
                message_id=pending.root,
                agent=pending.agent,
                deferred_call=pending.id,
                reason=ended.reason[:200],
            )
