"""Objects that the groups of a worker share: compiled plans, the embedding thread, limits."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from memrelay.bus.lease.workers import BusClock
from memrelay.bus.replication import Replication
from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.errors import EmbeddingFault, MemoryFault
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.report import Fault
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from memrelay.worker.background.rehearsals import LazyRehearsals
from memrelay.worker.background.watchdog import Watchdog
from memrelay.worker.deferred_calls.runner import DeferredCallRunner
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.run.batch import Batch, Checkpoint
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.outcome import PublicMessageLimit
from memrelay.worker.run.queries import Queries
from memrelay.worker.timings import Timings

log = get_logger(__name__)
Result = TypeVar("Result")
# Sends the deliveries to endpoints.
SENDER = "memrelay.worker.endpoints.sender:Sender"
# The lowest priority of a thread, as `nice` counts.
LOWEST_PRIORITY = 19
# Characters of a library's error that are reported.
MAX_REASON = 300


class PlanCache:
    """Compiles bundles of the catalog when they are first needed, and keeps their plans.

    Continuations need plans of earlier bundle versions.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._plans: dict[tuple[str, str], Plan] = {}
        self._refused: set[tuple[str, str]] = set()

    async def version(self, uid: str, bundle_hash: str) -> Plan | None:
        """Return the plan of a version; None if the bundle is missing or no longer valid."""
        known = (uid, bundle_hash)
        if known not in self._plans:
            source = await self._catalog.source(bundle_hash)
            checked = check(source, uid=uid) if source is not None else None
            if checked is None or checked.bundle is None:
                self._log_refused(known, checked.faults if checked else ())
                return None
            self._plans[known] = Plan(checked.bundle)
        return self._plans[known]

    async def uids(self) -> list[str]:
        """Return the pipelines in service, by name. Raises StoreBusy."""
        return [one.uid for one in await self._catalog.active()]

    async def active(self, uids: Collection[str] | None = None) -> list[Plan]:
        """Return the plans of the pipelines in service, except invalid ones.

        With `uids`, only theirs are compiled. Raises StoreBusy.
        """
        plans = []
        for one in await self._catalog.active():
            plan = (
                await self.version(one.uid, one.hash) if uids is None or one.uid in uids else None
            )
            if plan is not None:
                plan.deployed_at_ms = one.deployed_at
                plans.append(plan)
        return plans

    def _log_refused(self, known: tuple[str, str], faults: Sequence[Fault]) -> None:
        """Log once why a bundle is not served. Most often it names a block that is newer than this
        process."""
        if known not in self._refused:
            self._refused.add(known)
            log.error(
                "pipeline_not_served",
                pipeline=known[0],
                reason="; ".join(fault.as_line() for fault in faults[:3]) or "its bundle is gone",
                remedy="restart the worker if a block was added; otherwise correct the bundle "
                "and deploy it",
            )


class EmbeddingThread:
    """The thread in which a worker computes vectors, with the lowest priority.

    Neither the thread nor the embedder exists before the first work.
    """

    def __init__(self, options: EmbeddingOptions) -> None:
        self.options, self.embedder = options, LazyEmbedder(options)
        self._executor = ThreadPoolExecutor(1, "embedding", initializer=_lower_priority)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run work in the thread, after all earlier work.

        Raises what the work raises, and EmbeddingFault for an exception of a library, so that
        vectors are tried again.
        """
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        (outcome,) = await asyncio.gather(future, return_exceptions=True)
        if isinstance(outcome, Exception) and not isinstance(outcome, MemoryFault):
            log.error("embedder_failed", exc_info=outcome)
            raise EmbeddingFault(
                f"the embedder fails: {type(outcome).__name__}: {outcome}"[:MAX_REASON]
            ) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the thread after the current work. Waiting work is cancelled."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _lower_priority() -> None:
    """Linux schedules threads one by one. Elsewhere, this would affect the whole process."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Created once per worker.

    `database` is the number of the server's database. `storage` is the same for all workers that
    can serve the same stores. `batch` and `queries` are subclasses in a worker with tracing, and so
    is what `sender` names, which the first endpoint loads.
    """

    catalog: Catalog
    plans: PlanCache
    limits: WorkerLimits
    checkpoint: Checkpoint
    metrics: Metrics
    watchdog: Watchdog
    embedding: EmbeddingThread
    questions: QuestionEmbedder
    database: int
    deferred_calls: DeferredCallRunner
    replication: Replication
    storage: str
    secrets: SecretResolver = NO_SECRETS
    outgoing: OutgoingRules = PUBLIC_ONLY
    clock: BusClock = field(default_factory=BusClock)
    isolation: CrashIsolation = field(default_factory=CrashIsolation)
    public_limit: PublicMessageLimit = field(default_factory=PublicMessageLimit)
    rehearsals: LazyRehearsals = field(default_factory=LazyRehearsals)
    timings: Timings = field(default_factory=Timings)
    batch: type[Batch] = Batch
    queries: type[Queries] = Queries
    sender: str = SENDER
