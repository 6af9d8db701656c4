"""Makes the vectors of a group's stores, in the background: writes never wait for it, nor it for
more than a few of them."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from memrelay.memory.embedding.backfill import NOTHING, Task, keep, look, make, next_task, remake
from memrelay.memory.embedding.embedder import PROBE, Embedder
from memrelay.memory.embedding.loading import other_model
from memrelay.memory.errors import (
    EmbeddingFault,
    EmbeddingLater,
    MemoryFault,
    StoreBroken,
    StoreBusy,
    StoreFenced,
)
from memrelay.memory.sqlite.store import Store
from memrelay.memory.sqlite.vectors import Made
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.background.store_tasks import if_there
from memrelay.worker.shared import WorkerContext

log = structlog.stdlib.get_logger(__name__)
Result = TypeVar("Result")
GATHER_S = 0.25  # for what is written meanwhile: fewer commits, and it is found soon enough
FEWEST, MOST = 8, 512  # texts at once
GOAL_S = 0.3  # which they should take
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # before a fault is tried again
LONGEST_ASKED_S = 900.0  # the same, where the embedder says when
FEWER = 8  # times as few texts, after a fault
TRIES = 5  # of one text alone that a server fails at while it does others


class VectorTask:
    """For one group. Its steps run in the group's database thread between two batches; the
    embedding itself does not."""

    def __init__(
        self,
        plans: Sequence[Plan],
        stores: Sequence[str],
        thread: DatabaseThread,
        shared: WorkerContext,
    ) -> None:
        """Nothing is looked at before `run`."""
        self._wanted = {name for plan in plans for name in plan.embedded_stores}
        self._homes = {
            plan.home for plan in plans
        } - self._wanted  # wanted where there are named memories
        self._stores, self._thread, self._shared = tuple(stores), thread, shared
        self._embedding = shared.embedding
        self._unseen = set(
            self._stores
        )  # of which it is to be seen whether they have vectors, or named memories
        self._woken = asyncio.Event()
        self._remake: set[str] = (
            set()
        )  # stores whose vectors are to be made anew, and are not begun yet
        self._token = ""  # of the wish for it
        self._backlogs: dict[str, int] = {}  # of the stores that have vectors
        self._serving: dict[
            str, str
        ] = {}  # of each store that has vectors, the fingerprint of those that are searched
        self._together, self._pause_s = FEWEST, FIRST_PAUSE_S
        self._failed = ("", 0, 0)  # store, row and tries of the text that failed alone
        self._others = ""  # that a store's vectors are of another embedder
        self.fault = ""  # why none are made

    def wake(self, wanted: Collection[str] = (), imported: Collection[str] = ()) -> None:
        """Something was written; the `wanted` stores are to have vectors from now on, and so may
        those that got an export."""
        self._wanted.update(wanted)
        self._unseen.update(imported)
        if self._concerned:
            self._woken.set()

    def remake(self, token: str) -> bool:
        """All vectors are to be made anew, by the embedder of today, once for each token. Whether
        that has begun."""
        if token != self._token:
            self._token = token
            self._remake.update(self._stores)
            self._woken.set()
        if not self._concerned:
            self._remake.clear()
        return not self._remake

    def fingerprint(self, name: str) -> str:
        """Of the vectors that a store has; "" where there are none, or it is not known yet."""
        return self._serving.get(name, "")

    def backlog(self, stores: Iterable[str]) -> int:
        """How many records of these stores have no vector yet."""
        return sum(self._backlogs.get(name, 0) for name in stores)

    async def run(self) -> None:
        """Until it is cancelled, or fenced. It raises nothing: a store that cannot be used is found
        by the group's own work."""
        try:
            while True:
                self._woken.clear()
                if self._concerned and await self._round():
                    continue
                await self._woken.wait()
                await asyncio.sleep(GATHER_S)
        except StoreFenced:
            log.warning("vectors_left", stores=self._stores)

    @property
    def _concerned(self) -> bool:
        """Whether any store has vectors, or is to have some, or may."""
        return bool(self._unseen or self._wanted or self._backlogs)

    async def _round(self) -> bool:
        """A step for each store. Whether there may be more to do."""
        fault: MemoryFault | None = None
        self._others, more = "", False
        for name in self._stores:
            try:
                more |= await self._step(name)
            except EmbeddingFault as error:  # so it is for every store
                fault = error
                break
            except (StoreBusy, StoreBroken) as error:  # the others go on
                fault = error
        if fault is not None:
            await self._pause(fault)
            return True
        self._pause_s = FIRST_PAUSE_S
        self._tell(self._others)
        return more

    async def _step(self, name: str) -> bool:
        """What comes next in one store. Whether there may be more."""
        await self._see(name)
        wanted = name in self._wanted and self._embedding.embedder.configured
        found = await self._in_store(name, partial(look, wanted=wanted)) or NOTHING
        self._serving[name] = found.fingerprint
        if wanted or found.fingerprint:
            self._backlogs[name] = found.backlog
        if not found.todo and name not in self._remake:
            return False
        embedder = await self._embedding.run(self._embedding.embedder.get)
        if name in self._remake:
            self._shared.questions.forget()
            await self._in_store(name, partial(remake, embedder=embedder))
            self._remake.discard(name)
            self._shared.checkpoint("vectors begun anew")
        task = await self._in_store(
            name, partial(next_task, embedder=embedder, wanted=wanted, most=self._together)
        )
        if task is not None:
            await self._do(name, task, embedder)
        elif found.fingerprint not in (
            "",
            str(embedder.fingerprint),
        ):  # "" where they have begun a moment ago
            self._others = str(other_model(found.fingerprint, embedder))
        return task is not None

    async def _see(self, name: str) -> None:
        """Whether there are named memories from before, or by an import."""
        if name in self._unseen & self._homes and await self._in_store(name, _has_memories):
            self._wanted.add(name)
        self._unseen.discard(name)

    async def _do(self, name: str, task: Task, embedder: Embedder) -> None:
        """Outside of the database thread, then in a short transaction."""
        if task.one is None:
            return
        began = time.monotonic()
        try:
            made = await self._embedding.run(partial(make, embedder, task.texts))
        except EmbeddingLater as fault:
            self._together = max(1, len(task.texts) // FEWER)
            if len(task.texts) > 1 or not await self._is_to_blame(name, task.texts[0][0], embedder):
                raise
            made = [Made(*task.texts[0], b"")]
            log.warning("text_without_vector", store=name, reason=str(fault))
        took_s = time.monotonic() - began
        self._together = max(
            FEWEST, min(MOST, int(len(made) * min(2.0, GOAL_S / max(took_s, 1e-3))))
        )
        self._shared.checkpoint("vectors made")
        await self._in_store(name, partial(keep, one=task.one, made=made))
        self._shared.checkpoint("vectors kept")

    async def _is_to_blame(self, name: str, row: int, embedder: Embedder) -> bool:
        """Whether a text that failed alone is to be left without a vector, so that it holds up no
        other: again and again it
        failed while others do not. Raises EmbeddingLater where these do, too.
        """
        await self._embedding.run(partial(embedder.embed, [PROBE]))
        tries = self._failed[2] + 1 if self._failed[:2] == (name, row) else 1
        self._failed, self._pause_s = (name, row, tries), FIRST_PAUSE_S
        return tries >= TRIES

    async def _in_store(self, name: str, work: Callable[[Store], Result]) -> Result | None:
        return await self._thread.run(partial(if_there, name=name, work=work, absent=None))

    async def _pause(self, fault: MemoryFault) -> None:
        """What may pass by itself is tried again soon, and then ever later."""
        self._tell(str(fault))
        match fault:
            case EmbeddingLater():
                pause_s = max(self._pause_s, min(fault.after_s, LONGEST_ASKED_S))
            case EmbeddingFault():
                pause_s = LONGEST_PAUSE_S
            case _:
                pause_s = self._pause_s
        await asyncio.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _tell(self, fault: str) -> None:
        if fault and fault != self.fault:
            log.warning("vectors_wait", reason=fault, stores=self._stores)
        self.fault = fault


def _has_memories(store: Store) -> bool:
    return store.memories.any()
