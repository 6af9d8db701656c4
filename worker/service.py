"""The worker: opens what it needs, serves the deployed pipelines, comes back after every loss of
the bus, and ends in order."""

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from memrelay.bus.client.reconnecting import Backoff, ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused, Fenced
from memrelay.bus.key_types import SHARED, all_keys, wrong_type_keys
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.questions import Questions
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.stores import OpenStores
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.background.embedding_thread import EmbeddingThread
from memrelay.worker.background.watchdog import Watchdog
from memrelay.worker.errors import first_of
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.batch import Checkpoint
from memrelay.worker.session import Memory, Session
from memrelay.worker.shared import PlanCache, WorkerContext
from memrelay.worker.waiting import wait

log = structlog.stdlib.get_logger(__name__)
LOOK_AGAIN_S = 2.0  # the catalogue and the roll are read this often even if no change is announced
OVER_S = 0.5  # for the rest, when the grace time is over
REFUSED = "`memrelay doctor` says what is wrong with the server"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0  # between two tries to reach the bus


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Where the worker works."""

    address: Address
    memory_root: Path
    threads: int = 2
    open_files: int = 256
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    embedding: EmbeddingOptions = field(default_factory=EmbeddingOptions)
    matrix_bytes: int = 256 << 20  # of vectors in memory, for each thread


class Worker:
    """Serves the pipelines of one memory root, or its share where there are several workers."""

    def __init__(self, options: WorkerOptions, checkpoint: Checkpoint = lambda step: None) -> None:
        """`checkpoint` is called at each step that a crash may fall between."""
        self._options, self._checkpoint = options, checkpoint
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """Asks the worker to end: it takes nothing more, finishes what it has, and `run`
        returns."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Serves until `stop`. Raises NotTheOwner where another bus's workers have this memory
        root, and StoreBroken."""
        options = self._options
        async with AsyncExitStack() as stack:
            place = stack.enter_context(
                HostLocks(options.memory_root.resolve(), str(options.address))
            )
            catalog = await stack.enter_async_context(Catalog(options.memory_root))
            embedding = EmbeddingThread(options.embedding)
            stack.callback(embedding.close)
            questions = Questions(embedding.embedder)
            stack.callback(questions.close)
            open_files, meaning = (
                max(1, options.open_files // options.threads),
                Meaning(questions, Pool(options.matrix_bytes)),
            )
            threads = [
                DatabaseThread(f"database-{number}", options.memory_root, open_files, meaning)
                for number in range(options.threads)
            ]
            for thread in threads:
                stack.push_async_callback(thread.close)
            watch = await stack.enter_async_context(Watchdog(options.memory_root, threads))
            shared = WorkerContext(
                catalog,
                PlanCache(catalog),
                options.limits,
                self._checkpoint,
                Metrics(),
                watch,
                embedding,
                questions,
                options.address.database,
            )
            await self._serve(threads, shared, Memory(place))

    async def _serve(
        self, threads: list[DatabaseThread], shared: WorkerContext, memory: Memory
    ) -> None:
        backoff = Backoff(
            first_s=FIRST_PAUSE_S, most_s=LONGEST_PAUSE_S, healthy_after_s=LONGEST_PAUSE_S
        )
        while not self._stopping.is_set():
            began, ends = time.monotonic(), list[tuple[str, BaseException]]()
            try:
                async with Session(
                    self._options.address, threads, shared, memory, self._changed
                ) as session:
                    await self._attend(session, shared)
            except* (Fenced, StoreFenced) as errors:
                memory.served.clear()
                ends.append(("taken_for_dead", first_of(errors)))
            except* BusError as errors:
                ends.append(("bus_lost", first_of(errors)))
            self.ready.clear()
            pause_s = backoff.delay_s(time.monotonic() - began)
            for event, reason in ends:
                remedy = {"remedy": REFUSED} if isinstance(reason, BusRefused) else {}
                log.warning(
                    event,
                    **(
                        remedy
                        | {
                            "reason": str(reason),
                            "address": str(self._options.address),
                            "pause_s": pause_s,
                        }
                    ),
                )
            if any(isinstance(end, BusRefused) and end.code == "WRONGTYPE" for _, end in ends):
                await self._log_wrong_types(shared)
            # waits for what is under way there; the next session may give a store to another thread
            for thread in threads:
                await thread.run(OpenStores.close_all)
            await wait(self._stopping, pause_s)

    async def _log_wrong_types(self, shared: WorkerContext) -> None:
        """Name the keys for which the server refuses commands: its error does not."""
        expected = dict(SHARED)
        for plan in await self._plans(shared):
            expected |= all_keys(plan.uid)
        with suppress(BusError):
            async with ReconnectingConnection(self._options.address) as connection:
                for wrong in await wrong_type_keys(await connection.open(), expected):
                    log.error("key_has_wrong_type", reason=str(wrong), remedy=wrong.remedy)

    async def _attend(self, session: Session, shared: WorkerContext) -> None:
        """Runs a session, and tells it when other pipelines are deployed."""
        plans = await self._plans(shared)
        limiting = asyncio.create_task(self._limit_end(session))
        try:
            await session.run(plans, self.ready, self._watch_catalog(session, shared))
        finally:
            limiting.cancel()

    async def _limit_end(self, session: Session) -> None:
        """A bus that is there and answers nothing does not hold up the end: what is under way is
        pending then."""
        await self._stopping.wait()
        await asyncio.sleep(self._options.limits.grace_s + OVER_S)
        session.abort()

    async def _watch_catalog(self, session: Session, shared: WorkerContext) -> None:
        await self.ready.wait()
        while not self._stopping.is_set():
            await session.apply(await self._plans(shared))
            await wait(self._changed, LOOK_AGAIN_S)
            self._changed.clear()
        await session.stop(self._options.limits.grace_s)

    async def _plans(self, shared: WorkerContext) -> list[Plan]:
        """The plans of the active bundles, as soon as the catalogue can be read."""
        while not self._stopping.is_set():
            try:
                return await shared.shelf.active()
            except (StoreBusy, StoreBroken) as error:  # what is served goes on
                log.warning("catalogue_busy", reason=str(error))
            await wait(self._stopping, LONGEST_PAUSE_S)
        return []
