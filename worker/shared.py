"""What the groups of a worker share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from memrelay.bus.lease.workers import BusClock
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.embedding.questions import Questions
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.report import Fault
from memrelay.worker.background.embedding_thread import EmbeddingThread
from memrelay.worker.background.watchdog import Watchdog
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.metrics import Metrics
from memrelay.worker.run.batch import Checkpoint
from memrelay.worker.run.crash_isolation import CrashIsolation
from memrelay.worker.run.outcome import PublicMessageLimit

# The plans of the deployed bundles, and of older versions that continuations still run under.

log = structlog.stdlib.get_logger(__name__)


class PlanCache:
    """Compiles a bundle when it is first needed, and keeps the plan."""

    def __init__(self, catalog: Catalog) -> None:
        """Bundles come from the catalogue, by their hash."""
        self._catalog = catalog
        self._plans: dict[tuple[str, str], Plan] = {}
        self._refused: set[tuple[str, str]] = set()

    async def version(self, uid: str, bundle_hash: str) -> Plan | None:
        """The plan of one version; None where there is no such bundle, or this program does not
        accept it any more."""
        known = (uid, bundle_hash)
        if known not in self._plans:
            source = await self._catalog.source(bundle_hash)
            checked = check(source, uid=uid) if source is not None else None
            if checked is None or checked.bundle is None:
                self._refuse(known, checked.faults if checked else ())
                return None
            self._plans[known] = Plan(checked.bundle)
        return self._plans[known]

    async def active(self) -> list[Plan]:
        """Those of the pipelines in service; one that this program does not accept is left out.
        Raises StoreBusy."""
        plans = [await self.version(one.uid, one.hash) for one in await self._catalog.active()]
        return [plan for plan in plans if plan is not None]

    def _refuse(self, known: tuple[str, str], faults: Sequence[Fault]) -> None:
        """Tells once why a bundle is not served: mostly it names a block that was added after this
        program began."""
        if known not in self._refused:
            self._refused.add(known)
            reason = "; ".join(fault.as_line() for fault in faults[:3]) or "its bundle is gone"
            log.error(
                "pipeline_not_served",
                pipeline=known[0],
                reason=reason,
                remedy="start the worker again if a block was added meanwhile, else correct the bundle and deploy it",
            )


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Made once, by the worker."""

    catalog: Catalog
    shelf: PlanCache
    limits: WorkerLimits
    checkpoint: Checkpoint
    tally: Metrics
    watch: Watchdog
    embedding: EmbeddingThread
    questions: Questions
    database: int  # of the server
    clock: BusClock = field(default_factory=BusClock)
    quarantine: CrashIsolation = field(default_factory=CrashIsolation)
    spread: PublicMessageLimit = field(default_factory=PublicMessageLimit)
