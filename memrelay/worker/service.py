"""The worker: serves the deployed pipelines, and reconnects after every loss of the bus."""

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from memrelay.bus.client.primary_watch import watch_primary
from memrelay.bus.client.reconnecting import Backoff, ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusError, BusRefused, Fenced
from memrelay.bus.key_types import all_keys, shared_keys, wrong_type_keys
from memrelay.bus.keys import all_cells, find_cell
from memrelay.bus.replication import Replication
from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.opening import make_journal, make_projector
from memrelay.memory.engine.copy import clear_copies
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import BUDGET, Pool, SemanticResources
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from memrelay.worker.background.watchdog import Watchdog
from memrelay.worker.deferred_calls.execution_journal import ExecutionJournal
from memrelay.worker.deferred_calls.runner import DeferredCallRunner
from memrelay.worker.errors import first_cause
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.batch import Batch, Checkpoint
from memrelay.worker.run.queries import Queries
from memrelay.worker.session import Session, SessionMemory
from memrelay.worker.shared import SENDER, EmbeddingThread, PlanCache, WorkerContext
from memrelay.worker.waiting import wait

log = get_logger(__name__)
Result = TypeVar("Result")
# The catalog and the other workers are read this often even if no change is announced.
CATALOG_PAUSE_S = 2.0
# Extra time after the grace time before connections are cut.
ABORT_MARGIN_S = 0.5
# Pauses between attempts to reach the bus double from the first to the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
# Pipelines that a starting worker serves before it compiles the bundles of others.
FIRST_PIPELINES = 64
REFUSED = "`memrelay doctor` names the problem with the server"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Where and with what resources a worker runs.

    `matrix_bytes` is the memory for the vectors of one store, and `cache_bytes` that for all search
    caches. `storage_url` is that of PostgreSQL, and `storage_tables` keeps readable tables there.
    `outgoing` are the rules for the requests of deferred calls.
    `has_tracing` is set if the process exports traces.
    """

    address: Address
    memory_root: Path
    threads: int = 2
    open_files: int = 1024
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    embedding: EmbeddingOptions = field(default_factory=EmbeddingOptions)
    matrix_bytes: int = 512 << 20
    cache_bytes: int = BUDGET
    secrets: SecretResolver = NO_SECRETS
    outgoing: OutgoingRules = PUBLIC_ONLY
    storage_url: str = field(default="", repr=False)
    storage_tables: bool = False
    has_tracing: bool = False

    def make_catalog(self) -> Catalog:
        """Return the catalog, not yet open."""
        return Catalog(self.memory_root, self.storage_url)


class Worker:
    """Serves the pipelines of one memory root, or its share if there are several workers.

    `checkpoint` is called at each step between which a crash may fall.
    """

    def __init__(self, options: WorkerOptions, checkpoint: Checkpoint = lambda step: None) -> None:
        self._options, self._checkpoint = options, checkpoint
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """End the worker: it takes nothing more, finishes what it has, and `run` returns."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Serve until `stop`.

        Raises StoreBroken, ServerTooOld, and NotTheOwner if workers of another bus use the memory
        root.
        """
        options = self._options
        async with AsyncExitStack() as stack:
            host_locks = stack.enter_context(
                HostLocks(options.memory_root.resolve(), str(options.address), options.address.cell)
            )
            # Those of workers that were killed.
            clear_copies(options.memory_root)
            catalog = await stack.enter_async_context(options.make_catalog())
            await stack.enter_async_context(watch_primary(options.address))
            embedding = EmbeddingThread(options.embedding)
            stack.callback(embedding.close)
            deferred_calls = DeferredCallRunner(
                options.limits.deferred_calls,
                options.limits.deferred_call_s,
                options.address,
                options.secrets,
                options.outgoing,
            )
            journal = ExecutionJournal(options.memory_root.resolve() / "workers")
            journal.open()
            stack.callback(journal.close)
            deferred_calls.journal = journal
            stack.callback(deferred_calls.close)
            batch, queries, sender = self._find_classes(deferred_calls)
            questions = QuestionEmbedder(embedding.embedder)
            stack.callback(questions.close)
            threads = self._start_threads(questions, stack)
            is_first = options.address.cell == all_cells()[0]
            watchdog = Watchdog(options.memory_root, threads, measures_loop=is_first)
            await stack.enter_async_context(watchdog)
            shared = WorkerContext(
                catalog,
                PlanCache(catalog),
                options.limits,
                self._checkpoint,
                Metrics(),
                watchdog,
                embedding,
                questions,
                options.address.database,
                deferred_calls,
                Replication.of(options.address),
                await catalog.identify(),
                options.secrets,
                options.outgoing,
                batch=batch,
                queries=queries,
                sender=sender,
            )
            for thread in threads:
                thread.set_clock(partial(getattr, shared.clock, "now_ms"))
            await self._serve(threads, shared, SessionMemory(host_locks))

    def _find_classes(self, runner: DeferredCallRunner) -> tuple[type[Batch], type[Queries], str]:
        """Return the classes that run the inputs, and the place of the one that sends deliveries.
        With tracing, they record spans.
        """
        if not self._options.has_tracing:
            return Batch, Queries, SENDER
        traced = importlib.import_module("memrelay.worker.tracing.traced")
        runner.trace(traced.execute_traced, traced.TracedRequester)
        return traced.TracedBatch, traced.TracedQueries, traced.SENDER

    def _start_threads(
        self, questions: QuestionEmbedder, stack: AsyncExitStack
    ) -> list[DatabaseThread]:
        options = self._options
        open_files = max(1, options.open_files // options.threads)
        meaning = SemanticResources(
            questions, Pool(options.cache_bytes, largest=options.matrix_bytes)
        )
        projector = None
        if options.storage_tables:
            projector = make_projector(options.memory_root, options.storage_url)
            projector.start()
            stack.callback(projector.close)
        threads = [
            DatabaseThread(
                f"database-{number}",
                options.memory_root,
                open_files,
                meaning,
                make_journal(options.memory_root, options.storage_url, projector),
            )
            for number in range(options.threads)
        ]
        for thread in threads:
            stack.push_async_callback(thread.close)
        return threads

    async def _serve(
        self, threads: list[DatabaseThread], shared: WorkerContext, memory: SessionMemory
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
                    await self._run_session(session, shared)
            except* (Fenced, StoreFenced) as errors:
                memory.served.clear()
                # A store with a higher epoch must be opened, so that the lease surpasses it.
                memory.trusts_rest = False
                ends.append(("worker_fenced", first_cause(errors)))
            except* BusError as errors:
                ends.append(("bus_lost", first_cause(errors)))
            self.ready.clear()
            pause_s = backoff.delay_s(time.monotonic() - began)
            for event, reason in ends:
                self._log_end(event, reason, pause_s)
                if isinstance(reason, BusRefused) and reason.code == "WRONGTYPE":
                    await self._log_wrong_types(shared)
            # The next session may give a store to another thread.
            for thread in threads:
                await thread.run(OpenStores.close_all)
            await wait(self._stopping, pause_s)

    def _log_end(self, event: str, reason: BaseException, pause_s: float) -> None:
        remedy = {"remedy": REFUSED} if isinstance(reason, BusRefused) else {}
        log.warning(
            event,
            reason=str(reason),
            address=str(self._options.address),
            pause_s=pause_s,
            **remedy,
        )

    async def _log_wrong_types(self, shared: WorkerContext) -> None:
        """Name the keys with a wrong type, because the server's error does not."""
        expected = shared_keys()
        for plan in await self._read_plans(shared):
            expected |= all_keys(plan.uid)
        with suppress(BusError):
            async with ReconnectingConnection(self._options.address) as connection:
                for wrong in await wrong_type_keys(connection, expected):
                    log.error("key_has_wrong_type", reason=str(wrong), remedy=wrong.remedy)

    async def _run_session(self, session: Session, shared: WorkerContext) -> None:
        uids = [uid for uid in await self._read_catalog(shared.plans.uids) or () if self._owns(uid)]
        steps = start_steps(await session.sort_by_traffic(uids))
        plans = await self._read_plans(shared, steps[0])
        limiting = asyncio.create_task(self._abort_late(session))
        try:
            await session.run(plans, self.ready, self._watch_catalog(session, shared, steps[1:]))
        finally:
            limiting.cancel()

    async def _abort_late(self, session: Session) -> None:
        """End a session after the grace time, even if the bus does not answer."""
        await self._stopping.wait()
        await asyncio.sleep(self._options.limits.grace_s + ABORT_MARGIN_S)
        session.abort()

    async def _watch_catalog(
        self, session: Session, shared: WorkerContext, steps: Sequence[Collection[str]]
    ) -> None:
        await self.ready.wait()
        for uids in steps:
            if not self._stopping.is_set():
                await session.apply(await self._read_plans(shared, uids))
        while not self._stopping.is_set():
            await session.apply(await self._read_plans(shared))
            await wait(self._changed, CATALOG_PAUSE_S)
            self._changed.clear()
        await session.stop(self._options.limits.grace_s)

    def _owns(self, uid: str) -> bool:
        return find_cell(uid) == self._options.address.cell

    async def _read_plans(
        self, shared: WorkerContext, uids: Collection[str] | None = None
    ) -> list[Plan]:
        """Return the plans of the cell's pipelines in service, or of those of them in `uids`."""
        plans = await self._read_catalog(partial(shared.plans.active, uids)) or []
        return [plan for plan in plans if self._owns(plan.uid)]

    async def _read_catalog(self, read: Callable[[], Awaitable[Result]]) -> Result | None:
        """Return what `read` returns, as soon as the catalog can be read; None after `stop`."""
        while not self._stopping.is_set():
            try:
                return await read()
            except (StoreBusy, StoreBroken) as error:  # running pipelines go on
                log.warning("catalog_busy", reason=str(error))
            await wait(self._stopping, LONGEST_PAUSE_S)
        return None


class CellWorkers:
    """The workers of one process, one for each cell of a cluster. It has the methods of Worker."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers, self.ready = workers, asyncio.Event()

    def stop(self) -> None:
        """End the workers, as `Worker.stop` does."""
        for worker in self._workers:
            worker.stop()

    async def run(self) -> None:
        """Serve until `stop`. Raises as `Worker.run` does."""
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(worker.run()) for worker in self._workers]
            waiting = tasks.create_task(self._await_ready())
            await asyncio.gather(*running)
            waiting.cancel()

    async def _await_ready(self) -> None:
        for worker in self._workers:
            await worker.ready.wait()
        self.ready.set()


def start_steps(uids: Sequence[str]) -> list[set[str]]:
    """Return growing parts of the pipelines, each with all of the parts before it.

    The first pipelines are served while the bundles of the others are compiled.
    """
    steps, count = [set(uids[:FIRST_PIPELINES])], FIRST_PIPELINES
    while count < len(uids):
        count *= 2
        steps.append(set(uids[:count]))
    return steps
