"""What the groups of a worker share."""

from dataclasses import dataclass, field

from bus.clock import BusClock
from memory.catalog import Catalog
from memory.embedding.questions import Questions
from worker.batch import Checkpoint
from worker.embedding import EmbeddingThread
from worker.limits import WorkerLimits
from worker.plans import PlanShelf
from worker.quarantine import Quarantine
from worker.spread import Spread
from worker.tally import Tally
from worker.watch import Watch


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Made once, by the worker."""

    catalog: Catalog
    shelf: PlanShelf
    limits: WorkerLimits
    checkpoint: Checkpoint
    tally: Tally
    watch: Watch
    embedding: EmbeddingThread
    questions: Questions
    database: int  # of the server
    clock: BusClock = field(default_factory=BusClock)
    quarantine: Quarantine = field(default_factory=Quarantine)
    spread: Spread = field(default_factory=Spread)
