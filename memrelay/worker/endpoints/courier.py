"""The deliveries of one pipeline: makes them of changes, sends them, and notes the answers."""

import asyncio
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from memrelay.guarded_http.client import GuardedClient
from memrelay.logs import get_logger
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.models import load
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBusy
from memrelay.memory.models.endpoints.endpoints import show_url
from memrelay.memory.models.endpoints.outbox import (
    MOST_AT_ONCE,
    MOST_TAKEN,
    Request,
    collect,
    note_answers,
    take_due,
)
from memrelay.memory.models.endpoints.recovery import recover
from memrelay.memory.models.endpoints.schedule import Answer
from memrelay.memory.models.endpoints.table import Delivery, Endpoint, EndpointTable
from memrelay.pipelines.plan import Plan
from memrelay.worker.endpoints.control_plane import ControlPlaneEvents
from memrelay.worker.endpoints.figures import COUNT_PAUSE_S, DeliveryFigures
from memrelay.worker.endpoints.sender import Sender
from memrelay.worker.shared import WorkerContext

log = get_logger(__name__)
# Maximum pause, because a clock may be changed; minimum pause, for an endpoint with a rate.
MOST_PAUSE_S, LEAST_PAUSE_S = 3600.0, 0.05

# After another program has kept the file from being rewritten.
REWRITE_PAUSE_S = 1.0


class _Round(NamedTuple):
    """The result of one step on the stores."""

    requests: list[Request]
    next_ms: int | None
    more: bool
    off: list[Endpoint]


class Courier:
    """Delivers for one pipeline. `wake` is called when a request was answered."""

    def __init__(
        self, plan: Plan, thread: DatabaseThread, shared: WorkerContext, wake: Callable[[], None]
    ) -> None:
        self.store = plan.built_in_stores["endpoints"]
        self._uid, self._sources = plan.uid, plan.event_stores
        self._thread, self._shared, self._wake = thread, shared, wake
        self._client = GuardedClient(shared.outgoing, "endpoints", plan.uid)
        most_hops = shared.outgoing.max_hops
        self._sender: Sender = load(shared.sender)(
            self._client, shared.secrets, plan.uid, most_hops
        )
        self._control_plane = ControlPlaneEvents(plan.uid, self.store, thread, shared)
        # The endpoint of each delivery that is being sent, by its id.
        self._under_way: dict[str, str] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._slots = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, MOST_AT_ONCE))
        self._answers: list[tuple[Delivery, Answer]] = []
        # When requests to an endpoint with a rate began, monotonic seconds.
        self._begun = defaultdict[str, deque[float]](deque)
        # Whether changes are left that are no deliveries yet, and whether deliveries wait.
        self._has_changes = self._has_waiting = False
        self.figures = DeliveryFigures()
        # Whether the file has removed answers.
        self._must_rewrite = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be sent or written, no delivery waits, and no endpoint is in
        trouble, which the worker's reports name.
        """
        is_done = not (self._has_changes or self._has_waiting or self._must_rewrite)
        return is_done and self.figures.is_sound and not (self._under_way or self._answers)

    @property
    def has_backlog(self) -> bool:
        """Whether more wait than are sent at once."""
        return self._has_changes or len(self._under_way) > MOST_AT_ONCE

    def note_dead_letters(self) -> None:
        """Announce that the pipeline has dead letters, before the next round."""
        self._control_plane.note()

    async def open(self) -> None:
        """Open the HTTP client."""
        await self._client.__aenter__()

    async def close(self) -> None:
        """End all requests. The next owner sends them again, under their ids."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    async def run_round(self) -> float | None:
        """Write answers, make deliveries of new changes, and begin requests. Return the seconds
        until more is due, None if that depends on changes and answers.

        Raises StoreBusy, StoreBroken and StoreFenced.
        """
        await self._control_plane.collect()
        answers, now_ms = list(self._answers), self._shared.clock.now_ms
        step = partial(self._step, answers=answers, now_ms=now_ms)
        found = await self._thread.run(step)
        for endpoint in found.off:
            log.warning(
                "endpoint_switched_off",
                pipeline=self._uid,
                endpoint=endpoint.id,
                url=show_url(endpoint.spec.url),
                reason=endpoint.disabled,
                remedy="correct the receiver, then run `memrelay endpoints enable`",
            )
        for request in found.requests:
            self._begin(request)
        self._has_changes, self._has_waiting = found.more, found.next_ms is not None
        if found.more:
            return 0.0
        most_s = COUNT_PAUSE_S if self.figures.is_outdated else MOST_PAUSE_S
        if self._must_rewrite:
            return REWRITE_PAUSE_S
        if found.next_ms is None:
            return most_s if self.figures.is_outdated else None
        return min(max((found.next_ms - now_ms) / 1000, LEAST_PAUSE_S), most_s)

    def _step(
        self, stores: OpenStores, answers: list[tuple[Delivery, Answer]], now_ms: int
    ) -> _Round:
        """Runs in the database thread, while the loop waits for it."""
        with translate_errors(self.store):
            return self._step_in_stores(stores, answers, now_ms)

    def _step_in_stores(
        self, stores: OpenStores, answers: list[tuple[Delivery, Answer]], now_ms: int
    ) -> _Round:
        off = note_answers(stores, self.store, answers, now_ms, random.random) if answers else []
        self.figures.count(answer for _, answer in answers)
        # At once, because what follows may fail; others are added at the end meanwhile.
        del self._answers[: len(answers)]
        for delivery, _ in answers:
            self._under_way.pop(delivery.id, None)
        more, has_removed = collect(stores, self.store, self._sources, now_ms)
        more |= recover(stores, self.store, self._sources)
        self._must_rewrite |= has_removed
        if self._must_rewrite:
            with suppress(StoreBusy):  # another program reads the file; the next round tries again
                stores.rewrite(self.store)
                self._must_rewrite = False
        due = take_due(stores, self.store, now_ms, self._under_way, self._count_allowed)
        self.figures.refresh(stores.get(self.store).table(EndpointTable))
        return _Round(due.requests, due.next_ms, more, off)

    def _count_allowed(self, endpoint: Endpoint) -> int:
        """Return how many requests an endpoint's rate allows now."""
        rate, begun = endpoint.spec.rate, self._begun[endpoint.id]
        if not rate:
            begun.clear()
            return MOST_TAKEN
        while begun and time.monotonic() - begun[0] >= 1:
            begun.popleft()
        return rate - len(begun)

    def _begin(self, request: Request) -> None:
        endpoint = request.endpoint
        self._under_way[request.delivery.id] = endpoint.id
        if endpoint.spec.rate:
            self._begun[endpoint.id].append(time.monotonic())
        task = asyncio.create_task(self._send(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, request: Request) -> None:
        async with self._slots[request.endpoint.id]:
            answer = await self._sender.send(request)
        self._answers.append((request.delivery, answer))
        self._wake()
