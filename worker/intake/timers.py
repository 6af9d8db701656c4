"""Timers: calls the agents that want it at each interval (`wf_interval_secs`), by entries in their
pipelines' inputs."""

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import encode
from memrelay.bus.errors import BusRefused
from memrelay.bus.message import PLAIN, Message, Part
from memrelay.bus.streams.timer import tick
from memrelay.pipelines.plan import Plan, Timer
from memrelay.worker.waiting import wait

log = structlog.stdlib.get_logger(__name__)
AGAIN_S = 5.0  # after the server refused a tick, as one does that is out of memory
SHORTLY_S = 0.001  # after an interval's end, so that it is over by the server's clock too


class Timers:
    """Whether a tick is due is the server's to say; here is only waited, by a clock that nobody can
    set."""

    def __init__(
        self, connection: ReconnectingConnection, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`run` does the work, over a connection that it shares; `clock` gives seconds."""
        self._connection, self._clock = connection, clock
        self._due: dict[tuple[str, Timer], float] = {}
        self._changed = asyncio.Event()

    def serve(self, plans: Iterable[Plan]) -> None:
        """The timers of these pipelines from now on, and no others."""
        self._due = {
            key: self._due.get(key, 0.0)
            for key in ((plan.uid, timer) for plan in plans for timer in plan.timers)
        }
        self._changed.set()

    async def run(self) -> None:
        """Ticks until it is cancelled; raises BusUnavailable."""
        while True:
            self._changed.clear()
            now = self._clock()
            due = [key for key, at in self._due.items() if at <= now]
            for key, left_s in zip(
                due, await asyncio.gather(*[self._tick(*key) for key in due]), strict=True
            ):
                if key in self._due:
                    self._due[key] = self._clock() + left_s
            next_s = min(self._due.values()) - self._clock() if self._due else None
            await wait(self._changed, next_s)

    async def _tick(self, uid: str, timer: Timer) -> float:
        """Asks for a tick; returns in how many seconds the next one may be due."""
        part = Part(timer.agent.username, "")
        data = encode(Message(timer.agent.name, timer.agent.alias, "", PLAIN, None, (part,)))
        try:
            left_ms = await tick(self._connection, uid, timer.agent.alias, timer.interval_ms, data)
        except BusRefused as error:
            log.warning(
                "timer_refused",
                pipeline=uid,
                agent=timer.agent.alias,
                reason=str(error),
            )
            return min(AGAIN_S, timer.interval_ms / 1000)
        return left_ms / 1000 + SHORTLY_S
