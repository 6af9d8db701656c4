"""Executes the deferred calls of all pipelines of a worker, in one thread with an event loop."""

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from memrelay.blocks.async_call import OperationFailed
from memrelay.blocks.contract import Transient
from memrelay.bus.client.url import Address
from memrelay.bus.request import Requester
from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.logs import get_logger
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import PlannedAgent
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from memrelay.worker.deferred_calls.bus_operations import BusOperations
from memrelay.worker.deferred_calls.execute import execute
from memrelay.worker.deferred_calls.execution_journal import ExecutionJournal
from memrelay.worker.deferred_calls.stored import pack_error
from memrelay.worker.errors import describe_error

log = get_logger(__name__)
# Results that no group takes, because the pipeline went to another worker. The latest are kept.
MAX_UNCLAIMED = 64
# Time without an answer of the thread after which it counts as blocked.
BLOCKED_S = 5.0
# How long the end of a worker waits for the thread.
CLOSE_S = 1.0


class Execute(Protocol):
    """Returns the result of a deferred call as JSON. It raises whatever its executor raises."""

    async def __call__(
        self, bus: BusOperations, pending: Pending, subscriber: PlannedAgent, max_bytes: int
    ) -> bytes: ...


class Ended(NamedTuple):
    """The end of a deferred call: its `result` as JSON. `transient` is set if it must be repeated.

    `reason` is the text of the exception that led to a result with an error.
    """

    result: bytes
    transient: Transient | None = None
    reason: str = ""
    # How long it ran.
    took_s: float = 0.0


class DeferredCallTooSlow(Exception):
    """A deferred call took longer than `worker.deferred_call_s`."""


CODES: dict[type[BaseException], str] = {
    DeferredCallTooSlow: "timeout",
    CancelledError: "cancelled",
}
Work = Callable[[BusOperations], Coroutine[Any, Any, bytes]]
OnEnd = Callable[[Ended], None]


@dataclass(slots=True, eq=False)
class _Job:
    key: str
    work: Work
    alone: bool
    # Called in the worker's loop; None while no group awaits the end.
    on_end: OnEnd | None
    future: "Future[bytes] | None" = None
    ended: Ended | None = None
    # When it began, as `time.monotonic` counts.
    began_s: float = 0.0


class DeferredCallRunner:
    """Executes at most `most` deferred calls at once, each for at most `limit_s` seconds. Pipelines
    take turns.

    The thread starts with the first deferred call. A deferred call goes on when its group ends, as
    at a deploy, and the next group that submits its id gets the result. All methods belong to the
    worker's event loop.
    """

    def __init__(
        self,
        most: int,
        limit_s: float,
        address: Address,
        secrets: SecretResolver = NO_SECRETS,
        outgoing: OutgoingRules = PUBLIC_ONLY,
    ) -> None:
        self._most, self._limit_s = most, limit_s
        self.blocked_s = BLOCKED_S
        # Set when the thread has answered the last probe.
        self._has_answered = threading.Event()
        self._probing: asyncio.TimerHandle | None = None
        self._bus = BusOperations(address, secrets, outgoing)
        # Executes a deferred call; with tracing, in a span.
        self.execute: Execute = execute
        # By default deaths of other workers are not known.
        self.journal: ExecutionJournal | None = None
        self._jobs: dict[str, _Job] = {}
        # By pipeline, the one whose turn is next first.
        self._waiting: dict[str, deque[_Job]] = {}
        self._running: set[_Job] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def trace(self, execute: Execute, requester_class: type[Requester]) -> None:
        """Execute with this function, and call operations with this requester. Call it first."""
        self.execute, self._bus.requester_class = execute, requester_class

    def submit(self, key: str, work: Work, on_end: OnEnd, *, alone: bool = False) -> None:
        """Execute a deferred call, or await it if it runs or has ended already.

        `alone` executes it while no other deferred call runs.
        """
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(key, work, alone, on_end)
            self._waiting.setdefault(_parse_uid(key), deque()).append(job)
            self._start_next()
        elif job.ended is not None:
            on_end(job.ended)
        job.on_end = on_end

    def forget(self, key: str) -> None:
        """Drop a deferred call whose result is stored, or no longer wanted."""
        self._jobs.pop(key, None)

    def cancel(self, key: str) -> None:
        """End a deferred call at once. Its later operations are refused, and `on_end` gets an error
        as its result.
        """
        job = self._jobs.get(key)
        if job is None:
            return
        self._bus.cancelled.add(key)
        if job.future is not None:
            job.future.cancel()
        elif not self.withdraw([key]) and job.on_end is not None:
            job.on_end(Ended(pack_error("it was cancelled", "cancelled")))

    def withdraw(self, keys: Collection[str]) -> set[str]:
        """Drop those deferred calls that have not begun. Return the others."""
        for uid in {_parse_uid(key) for key in keys} & self._waiting.keys():
            queue = self._waiting.pop(uid)
            for job in [job for job in queue if job.key in keys]:
                queue.remove(job)
                del self._jobs[job.key]
            if queue:
                self._waiting[uid] = queue
        return {key for key in keys if key in self._jobs}

    def leave(self, keys: Collection[str]) -> None:
        """Drop those deferred calls that have not begun. The others go on without a group."""
        for key in self.withdraw(keys):
            self._jobs[key].on_end = None

    def close(self) -> None:
        """Cancel all deferred calls and end the thread."""
        self._is_closing = True
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_S)

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < self._most:
            uid, queue = next(iter(self._waiting.items()))
            must_wait = queue[0].alone or any(job.alone for job in self._running)
            if self._running and must_wait:
                return
            del self._waiting[uid]
            self._start(queue.popleft())
            if queue:
                self._waiting[uid] = queue

    def _start(self, job: _Job) -> None:
        self._running.add(job)
        job.began_s = time.monotonic()
        loop = asyncio.get_running_loop()
        end = partial(self._end, job)
        work = self._limit(job)
        if self.journal is not None:
            work = self.journal.wrap(job.key, work)
        job.future = asyncio.run_coroutine_threadsafe(work, self._open_loop())
        job.future.add_done_callback(lambda _: _call_in(loop, end))
        if self._probing is None:
            self._has_answered.set()
            self._probe()

    def _probe(self) -> None:
        """Log a deferred call that does not await, because it delays all others.

        Repeat while any run.
        """
        self._probing = None
        if not self._running or self._is_closing:
            return
        if not self._has_answered.is_set() and self._thread is not None:
            log.warning(
                "deferred_calls_blocked",
                deferred_calls=[job.key for job in self._running],
                at=_find_line(self._thread),
                remedy="a block must await; run blocking calls with asyncio.to_thread",
            )
        self._has_answered.clear()
        self._open_loop().call_soon_threadsafe(self._has_answered.set)
        self._probing = asyncio.get_running_loop().call_later(self.blocked_s, self._probe)

    async def _limit(self, job: _Job) -> bytes:
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                return await job.work(self._bus)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeferredCallTooSlow(
                f"it took longer than {self._limit_s:g} s (worker.deferred_call_s)"
            ) from error

    def _end(self, job: _Job) -> None:
        self._running.discard(job)
        assert job.future is not None
        ended = _make_end(job.future, self._bus.secrets)
        job.ended = ended = ended._replace(took_s=time.monotonic() - job.began_s)
        job.future = None
        if job.on_end is not None:
            job.on_end(ended)
        else:
            self._forget_oldest()
        self._start_next()

    def _forget_oldest(self) -> None:
        unclaimed = [
            key for key, job in self._jobs.items() if job.ended is not None and job.on_end is None
        ]
        for key in unclaimed[:-MAX_UNCLAIMED]:
            del self._jobs[key]

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            if self.journal is not None:
                self._loop.set_task_factory(self.journal.make_task)
            # A daemon, so that an executor that blocks the thread does not keep the process alive.
            self._thread = threading.Thread(target=self._serve, name="deferred_calls", daemon=True)
            self._thread.start()
        return self._loop

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # type: ignore[arg-type, return-value]
            loop = runner.get_loop()
            while not self._is_closing:
                # An executor that exits ends only its deferred call.
                with suppress(SystemExit, KeyboardInterrupt):
                    loop.run_forever()
            runner.run(self._bus.close())


def _find_line(thread: threading.Thread) -> str:
    """Return the file and line that a thread executes."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _parse_uid(key: str) -> str:
    return key.partition("/")[0]


def _call_in(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the worker has ended
        loop.call_soon_threadsafe(end)


def _make_end(future: "Future[bytes]", secrets: SecretResolver) -> Ended:
    fault = CancelledError("it was cancelled") if future.cancelled() else future.exception()
    return Ended(future.result()) if fault is None else make_end(fault, secrets)


def make_end(fault: BaseException, secrets: SecretResolver) -> Ended:
    """Return the end of a deferred call that raised an exception."""
    name, transient = type(fault).__name__, fault if isinstance(fault, Transient) else None
    reason = f"{name}: {describe_error(fault, secrets)}"
    text = reason
    if isinstance(fault, OSError) and fault.filename is not None:
        # Only the log has the path.
        text = f"{name}: {fault.strerror}"
    return Ended(pack_error(text, _find_code(fault)), transient, reason)


def _find_code(fault: BaseException) -> str:
    """Return the code of an exception that ended a deferred call, "" for one without a code."""
    if isinstance(fault, OperationFailed):
        return fault.code
    return CODES.get(type(fault), "")
