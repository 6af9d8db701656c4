"""Timers: appends an entry for an agent at each of its intervals (`wf_interval_secs`)."""

import asyncio
import time
from collections.abc import Callable, Iterable

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import encode
from memrelay.bus.errors import BusRefused
from memrelay.bus.message import PLAIN, Message, Part
from memrelay.bus.streams.input_stream import tick
from memrelay.logs import get_logger
from memrelay.pipelines.plan import Plan, Timer
from memrelay.worker.waiting import wait

log = get_logger(__name__)
# Pause after the server refused a tick, for example because it is out of memory.
REFUSED_PAUSE_S = 5.0
# Wait beyond an interval's end, so that it is over by the server's clock too.
MARGIN_S = 0.001


class Timers:
    """Asks the server for ticks. The server decides by its own clock whether one is due.

    `is_waiting` returns whether an agent of a pipeline still waits for a deferred call. `clock`
    returns seconds and never goes back; it only measures the waits.
    """

    def __init__(
        self,
        connection: ReconnectingConnection,
        is_waiting: Callable[[str, str], bool] = lambda uid, alias: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._is_waiting, self._clock = connection, is_waiting, clock
        self._due: dict[tuple[str, Timer], float] = {}
        self._changed = asyncio.Event()

    def serve(self, plans: Iterable[Plan]) -> None:
        """Run exactly the timers of these pipelines."""
        self._due = {
            key: self._due.get(key, 0.0)
            for key in ((plan.uid, timer) for plan in plans for timer in plan.timers)
        }
        self._changed.set()

    async def run(self) -> None:
        """Tick until cancelled. Raises BusUnavailable."""
        while True:
            self._changed.clear()
            now = self._clock()
            due = [key for key, at in self._due.items() if at <= now]
            left_s = await asyncio.gather(*[self._tick(*key) for key in due])
            for key, seconds in zip(due, left_s, strict=True):
                if key in self._due:
                    self._due[key] = self._clock() + seconds
            next_s = min(self._due.values()) - self._clock() if self._due else None
            await wait(self._changed, next_s)

    async def _tick(self, uid: str, timer: Timer) -> float:
        """Request a tick. Return the seconds until the next one may be due."""
        if self._is_waiting(uid, timer.agent.alias):
            return timer.interval_ms / 1000
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
            return min(REFUSED_PAUSE_S, timer.interval_ms / 1000)
        return left_ms / 1000 + MARGIN_S
