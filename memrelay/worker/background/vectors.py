"""Computes the vectors of a group's stores in the background.

Writes never wait for it, and it waits for at most a few writes.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from memrelay.logs import get_logger
from memrelay.memory.engine.models import needs_vectors
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.engine.vectors import Made
from memrelay.memory.errors import (
    EmbeddingFault,
    EmbeddingUnavailable,
    MemoryFault,
    StoreBroken,
    StoreBusy,
    StoreFenced,
)
from memrelay.memory.search.embedding.backfill import (
    NOTHING_TO_DO,
    EmbeddingTask,
    VectorState,
    compute_vectors,
    inspect_vectors,
    next_task,
    start_new_set,
    store_vectors,
)
from memrelay.memory.search.embedding.embedder import PROBE, Embedder
from memrelay.memory.search.embedding.loading import wrong_model_error
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.busy_retry import run_if_exists
from memrelay.worker.shared import WorkerContext

log = get_logger(__name__)
Result = TypeVar("Result")
# Pause after a write, for more writes in one commit.
WRITE_PAUSE_S = 0.25
# Texts that are embedded together, and the time that they should take.
MIN_TEXTS, MAX_TEXTS, GOAL_S = 8, 512, 0.3
# Pauses after a failure double from the first to the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
# The longest pause that an embedder may ask for.
MAX_REQUESTED_PAUSE_S = 900.0
# After a failure, the number of texts is divided by this.
SHRINK_FACTOR = 8
# Attempts for a single text at which the embedder fails while it embeds others.
ATTEMPTS = 5


class VectorTask:
    """Computes vectors for one group.

    Its steps on stores run in the group's database thread between two batches. The embedding runs
    in the embedding thread.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        stores: Sequence[str],
        thread: DatabaseThread,
        shared: WorkerContext,
    ) -> None:
        self._wanted = {name for plan in plans for name in plan.embedded_stores}
        # These stores are wanted if they have named memories or records of another model.
        built_in = {name for plan in plans for name in plan.built_in_stores.values()}
        self._built_in_stores = built_in - self._wanted
        self._stores, self._thread, self._shared = tuple(stores), thread, shared
        self._embedding = shared.embedding
        # Stores that were not searched for vectors and records.
        self._unseen = set(self._stores)
        self._woken = asyncio.Event()
        self._is_resting = False
        # Stores whose requested reindex has not begun, and the token of the request.
        self._reindex: set[str] = set()
        self._token = ""
        # By store with vectors: records without one, and the fingerprint of the searched vectors.
        self._backlogs: dict[str, int] = {}
        self._fingerprints: dict[str, str] = {}
        self._text_count, self._pause_s = MIN_TEXTS, FIRST_PAUSE_S
        # Store, row and attempts of the text that failed alone.
        self._failed = ("", 0, 0)
        # Why a store has vectors of another model than the configured one.
        self._model_mismatch = ""
        # Why no vectors are made.
        self.fault = ""

    def wake(self, wanted: Collection[str] = (), imported: Collection[str] = ()) -> None:
        """Announce a write. The `wanted` stores need vectors from now on.

        Stores with an import may need them too.
        """
        self._wanted.update(wanted)
        self._unseen.update(imported)
        if self._has_stores:
            self._woken.set()

    @property
    def is_idle(self) -> bool:
        """Whether all vectors are computed and nothing was written since."""
        begun = self._woken.is_set() or self._unseen or self._reindex
        return self._is_resting and not begun and not any(self._backlogs.values())

    @property
    def embedder_name(self) -> str:
        """Return the configured model. The embedder itself is not loaded for it."""
        return self._embedding.embedder.name

    @property
    def state(self) -> tuple[list[str], dict[str, str], str]:
        """Return the stores that need vectors, the fingerprints of the searched vectors, and the
        configured embedder.
        """
        known = {name: found for name, found in self._fingerprints.items() if found}
        return sorted(self._wanted), known, self.embedder_name

    def rest(self, wanted: Iterable[str], fingerprints: Mapping[str, str]) -> None:
        """Begin with the `state` of an earlier owner, whose vectors were all computed."""
        self._is_resting = True
        self._unseen.clear()
        self._wanted.update(wanted)
        self._fingerprints.update(fingerprints)
        self._backlogs = dict.fromkeys(self._fingerprints, 0)

    def reindex(self, token: str) -> bool:
        """Recompute all vectors, once for each token. Return whether that has begun."""
        if token != self._token:
            self._token = token
            self._reindex.update(self._stores)
            self._woken.set()
        if not self._has_stores:
            self._reindex.clear()
        return not self._reindex

    def fingerprint(self, name: str) -> str:
        """Return the fingerprint of a store's vectors; "" if it has none or is not known yet."""
        return self._fingerprints.get(name, "")

    def backlog(self, stores: Iterable[str]) -> int:
        """Return how many records of these stores have no vector yet."""
        return sum(self._backlogs.get(name, 0) for name in stores)

    async def run(self) -> None:
        """Work until cancelled or fenced. Raises nothing: batches report unusable stores."""
        try:
            while True:
                while not self._is_resting:
                    self._woken.clear()
                    self._is_resting = not (self._has_stores and await self._run_round())
                await self._woken.wait()
                self._is_resting = False
                await asyncio.sleep(WRITE_PAUSE_S)
        except StoreFenced:
            log.warning("vectors_stopped", stores=self._stores)

    @property
    def _has_stores(self) -> bool:
        """Whether a store has vectors, needs some, or may need some."""
        return bool(self._unseen or self._wanted or self._backlogs)

    async def _run_round(self) -> bool:
        """Make one step in each store. Return whether there may be more to do."""
        fault: MemoryFault | None = None
        self._model_mismatch, more = "", False
        for name in self._stores:
            try:
                more |= await self._step(name)
            except EmbeddingFault as error:  # it affects every store
                fault = error
                break
            except (StoreBusy, StoreBroken) as error:
                fault = error
        if fault is not None:
            await self._pause(fault)
            return True
        self._pause_s = FIRST_PAUSE_S
        self._set_fault(self._model_mismatch)
        return more

    async def _step(self, name: str) -> bool:
        """Make the next step in one store. Return whether there may be more to do."""
        await self._look_for_content(name)
        lazy = self._embedding.embedder
        wanted = name in self._wanted and lazy.configured
        found = await self._in_store(name, partial(inspect_vectors, wanted=wanted)) or NOTHING_TO_DO
        self._note(name, found)
        if wanted or found.fingerprint:
            self._backlogs[name] = found.backlog
        is_outdated = not found.next and lazy.replaces(found.fingerprint)
        if not (found.todo or is_outdated or name in self._reindex):
            return False
        embedder = await self._embedding.run(lazy.get)
        if name in self._reindex:
            self._shared.questions.forget()
        if is_outdated or name in self._reindex:
            await self._in_store(name, partial(start_new_set, embedder=embedder))
            self._reindex.discard(name)
            self._shared.checkpoint("vectors begun anew")
        # Both in one step, so that frequent writes do not keep the next set from its end.
        was_behind = bool(found.next) and await self._keep_serving_set(name, found.fingerprint)
        task = await self._in_store(
            name, partial(next_task, embedder=embedder, wanted=wanted, most=self._text_count)
        )
        if task is not None:
            await self._embed(name, task, embedder)
        # The fingerprint is "" if a reindex has just begun.
        elif found.fingerprint not in ("", str(embedder.fingerprint)):
            self._model_mismatch = str(wrong_model_error(found.fingerprint, embedder))
        return was_behind or task is not None

    def _note(self, name: str, state: VectorState) -> None:
        """Note the model of a store's vectors. One that was replaced is no longer in use."""
        before = self._fingerprints.get(name, "")
        self._fingerprints[name] = state.fingerprint
        if before not in ("", state.fingerprint):
            self._embedding.embedder.release(before)

    async def _keep_serving_set(self, name: str, fingerprint: str) -> bool:
        """Embed new texts with the former model too, because its vectors answer until the next set
        is complete. Return whether there were any.
        """
        former = await self._embedding.run(partial(self._embedding.embedder.former, fingerprint))
        if former is None:
            return False
        task = await self._in_store(
            name,
            partial(
                next_task, embedder=former, wanted=False, most=self._text_count, keeps_next=True
            ),
        )
        if task is not None:
            await self._embed(name, task, former)
        return task is not None

    async def _look_for_content(self, name: str) -> None:
        """Find records of built-in stores from before, or from an import."""
        if name in self._unseen & self._built_in_stores:
            work = partial(needs_vectors, name.rpartition("/")[2])
            if await self._in_store(name, work):
                self._wanted.add(name)
        self._unseen.discard(name)

    async def _embed(self, name: str, task: EmbeddingTask, embedder: Embedder) -> None:
        """Embed texts outside the database thread, then store them in a short transaction."""
        if task.one is None:
            return
        began = time.monotonic()
        try:
            made = await self._embedding.run(partial(compute_vectors, embedder, task.texts))
        except EmbeddingUnavailable as fault:
            self._text_count = max(1, len(task.texts) // SHRINK_FACTOR)
            if len(task.texts) > 1 or not await self._is_to_blame(name, task.texts[0][0], embedder):
                raise
            made = [Made(*task.texts[0], b"")]
            log.warning("text_without_vector", store=name, reason=str(fault))
        took_s = max(time.monotonic() - began, 1e-3)
        count = int(len(made) * min(2.0, GOAL_S / took_s))
        self._text_count = max(MIN_TEXTS, min(MAX_TEXTS, count))
        self._shared.checkpoint("vectors made")
        await self._in_store(name, partial(store_vectors, one=task.one, made=made))
        self._shared.checkpoint("vectors kept")

    async def _is_to_blame(self, name: str, row: int, embedder: Embedder) -> bool:
        """Return whether a text that fails alone stays without a vector, so it blocks no others.

        That is the case after several attempts while other texts succeed. Raises
        EmbeddingUnavailable if
        they fail too.
        """
        await self._embedding.run(partial(embedder.embed, [PROBE]))
        attempts = self._failed[2] + 1 if self._failed[:2] == (name, row) else 1
        self._failed, self._pause_s = (name, row, attempts), FIRST_PAUSE_S
        return attempts >= ATTEMPTS

    async def _in_store(self, name: str, work: Callable[[Store], Result]) -> Result | None:
        return await self._thread.run(partial(run_if_exists, name=name, work=work, absent=None))

    async def _pause(self, fault: MemoryFault) -> None:
        """Wait before the next attempt: briefly at first if the failure may be temporary."""
        self._set_fault(str(fault))
        match fault:
            case EmbeddingUnavailable():
                pause_s = max(self._pause_s, min(fault.after_s, MAX_REQUESTED_PAUSE_S))
            case EmbeddingFault():
                pause_s = LONGEST_PAUSE_S
            case _:
                pause_s = self._pause_s
        await asyncio.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _set_fault(self, fault: str) -> None:
        if fault and fault != self.fault:
            log.warning("vectors_paused", reason=fault, stores=self._stores)
        self.fault = fault
