"""Timers: append an entry for an agent at each of its intervals or slots.

An agent has an interval by `wf_interval_secs`, or slots by `wf_cron`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import encode
from memrelay.bus.errors import BusRefused
from memrelay.bus.message import PLAIN, Message, Part
from memrelay.bus.streams.input_stream import Slot, run_slot, tick
from memrelay.logs import get_logger
from memrelay.pipelines.cron import MINUTE_MS, CronSchedule
from memrelay.pipelines.plan import Plan, Timer
from memrelay.worker.waiting import wait

log = get_logger(__name__)
# Pause after the server refused a tick, for example because it is out of memory.
REFUSED_PAUSE_S = 5.0
# Wait beyond the end of an interval or the start of a slot, so that it is over by the server's
# clock too.
MARGIN_S = 0.001
# A clock that was set, or a computer that slept, delays a slot by at most this much.
LONGEST_WAIT_S = 30.0
# Age of the oldest slot that is caught up.
CATCH_UP_MS = 366 * 24 * 60 * MINUTE_MS

Key = tuple[str, Timer]  # of a pipeline and its timer


class Timers:
    """Asks the server for calls of timers. It appends each at most once.

    The server decides by its own clock whether an interval is over. `now_ms` is that clock, which
    decides about slots. `is_waiting` returns whether an agent of a pipeline still waits for a
    deferred call. `clock` returns seconds and never goes back; it only measures the waits.
    """

    def __init__(
        self,
        connection: ReconnectingConnection,
        now_ms: Callable[[], int],
        is_waiting: Callable[[str, str], bool] = lambda uid, alias: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._now_ms = connection, now_ms
        self._is_waiting, self._clock = is_waiting, clock
        self._due: dict[Key, float] = {}
        self._between: dict[Key, tuple[int, int]] = {}  # a settled slot and the next, in Unix ms
        self._changed = asyncio.Event()

    def serve(self, plans: Iterable[Plan]) -> None:
        """Run exactly the timers of these pipelines."""
        keys = [(plan.uid, timer) for plan in plans for timer in plan.timers]
        self._due = {key: self._due.get(key, 0.0) for key in keys}
        self._between = {key: self._between[key] for key in keys if key in self._between}
        self._changed.set()

    async def run(self) -> None:
        """Tick until cancelled. Raises BusUnavailable."""
        while True:
            self._changed.clear()
            now = self._clock()
            due = [key for key, at in self._due.items() if at <= now]
            left_s = await asyncio.gather(*[self._call(*key) for key in due])
            for key, seconds in zip(due, left_s, strict=True):
                if key in self._due:
                    self._due[key] = self._clock() + seconds
            next_s = min(self._due.values()) - self._clock() if self._due else None
            await wait(self._changed, next_s)

    async def _call(self, uid: str, timer: Timer) -> float:
        """Request a call that is due. Return the seconds until the next one may be due."""
        period_s = timer.interval_ms / 1000 or LONGEST_WAIT_S
        if self._is_waiting(uid, timer.agent.alias):
            return period_s
        try:
            if timer.schedule is not None:
                return await self._run_slot(uid, timer, timer.schedule)
            left_ms = await tick(
                self._connection, uid, timer.agent.alias, timer.interval_ms, make_tick(timer)
            )
        except BusRefused as error:
            log.warning(
                "timer_refused",
                pipeline=uid,
                agent=timer.agent.alias,
                reason=str(error),
            )
            return min(REFUSED_PAUSE_S, period_s)
        return left_ms / 1000 + MARGIN_S

    async def _run_slot(self, uid: str, timer: Timer, schedule: CronSchedule) -> float:
        """Request the last slot if it is not settled. Return the seconds until the next look."""
        key, now_ms = (uid, timer), self._now_ms()
        settled_ms, next_ms = self._between.get(key, (now_ms, 0))
        if not settled_ms <= now_ms < next_ms:
            oldest_ms = now_ms - (CATCH_UP_MS if timer.catches_up else MINUTE_MS)
            slot_ms = schedule.find_last(oldest_ms, now_ms) or 0
            slot = Slot(timer.agent.alias, schedule.key, slot_ms, min(settled_ms, now_ms))
            next_ms = schedule.find_next(now_ms) or now_ms + CATCH_UP_MS
            if await run_slot(self._connection, uid, slot, make_tick(timer)):
                self._between[key] = slot_ms or now_ms, next_ms
        return min((next_ms - now_ms) / 1000 + MARGIN_S, LONGEST_WAIT_S)


def make_tick(timer: Timer) -> bytes:
    """Return the envelope of an empty message from the agent itself."""
    part = Part(timer.agent.username, "")
    agent = timer.agent
    return encode(Message(agent.name, agent.alias, "", PLAIN, None, (part,)))
