"""Queries with `as_of`: read-only calls on stores as they were. Loaded with the first one.

They run on snapshots (memory/engine/snapshots.py) in a thread of their own, so they delay no
message. A query runs again after each snapshot that it lacks.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memrelay.bus.request import (
    AS_OF,
    BROKEN,
    BUSY,
    SNAPSHOT_PENDING,
    UNAVAILABLE,
    error_answer,
    output_answer,
)
from memrelay.logs import get_logger
from memrelay.memory.engine.as_of import PastState, PastStates
from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.snapshots import Snapshot, SnapshotKey, Snapshots
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.engine.timestamps import format_time, parse_ms
from memrelay.memory.engine.vectors import Made, VectorSet
from memrelay.memory.errors import EmbeddingFault, Refused, StoreBroken, StoreBusy, VectorPending
from memrelay.memory.search.embedding.backfill import (
    EmbeddingTask,
    compute_vectors,
    next_task,
    store_vectors,
)
from memrelay.memory.search.embedding.embedder import Embedder
from memrelay.worker.errors import describe_error
from memrelay.worker.run.queries import OWNER_LEAVES, Query, add_member, answer_all

if TYPE_CHECKING:
    from memrelay.worker.shared import WorkerContext

log = get_logger(__name__)
Result = TypeVar("Result")
MAX_WAITING = 100
OUTPUT = b'{"output":'
# A caller hears this long before the end of its wait that the snapshot is still being made.
MARGIN_S = 0.5
# Snapshots are removed after this time without a query.
UNUSED_S = 600.0
# Texts that are embedded together.
TEXTS_TOGETHER = 32


class SnapshotMissing(Exception):
    """A query needs the snapshot of a store that is not made."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(memory_id)
        self.memory_id = memory_id


class Found(NamedTuple):
    """The state of a store at the time of a query, and its file, None if there is none."""

    state: PastState
    path: Path | None


class PastStores:
    """The stores of a query as they were, with the rights of today. It has the reading methods of
    OpenStores.
    """

    def __init__(self, snapshots: Snapshots, found: Mapping[str, Found], today_ms: int) -> None:
        self._snapshots, self._found, self._today_ms = snapshots, found, today_ms
        self._renewed = set[str]()

    def get(self, memory_id: str) -> Store:
        """Return a store as it was. Raises SnapshotMissing."""
        return self.snapshot(memory_id).store

    def snapshot(self, memory_id: str) -> Snapshot:
        """Return the snapshot of a store. Raises SnapshotMissing."""
        found = self._found.get(memory_id)
        if found is None:
            raise SnapshotMissing(memory_id)
        key = SnapshotKey(memory_id, found.state.change)
        snapshot = self._snapshots.find(key)
        if snapshot is None:
            raise SnapshotMissing(memory_id)
        if is_closed(memory_id) and found.path is not None and memory_id not in self._renewed:
            self._snapshots.renew_rights(key, found.path, self._today_ms)
            self._renewed.add(memory_id)
        return snapshot

    def exists(self, memory_id: str) -> bool:
        """Return whether the store exists today. Raises SnapshotMissing."""
        if memory_id not in self._found:
            raise SnapshotMissing(memory_id)
        return self._found[memory_id].path is not None


class PastQueries:
    """Answers the queries with `as_of` of one group.

    `thread` has the stores of today.
    """

    def __init__(
        self,
        thread: DatabaseThread,
        publish: Callable[[str, bytes], None],
        answer_bytes: int,
        shared: "WorkerContext",
    ) -> None:
        self._thread, self._publish = thread, publish
        self._answer_bytes, self._shared = answer_bytes, shared
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(1, "past")
        self._snapshots: Snapshots | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._unused: asyncio.TimerHandle | None = None

    def accept(self, query: Query) -> None:
        """Take one query. It is answered before its caller stops waiting."""
        question = query.question
        if len(self._tasks) >= MAX_WAITING:
            reason = f"{MAX_WAITING} calls with as_of wait; try again in a second"
            self._publish(question.reply, output_answer(error_answer(BUSY, reason)))
            return
        task = self._loop.create_task(self._work(query))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, query: Query) -> None:
        reply, within_s = query.question.reply, query.until - self._loop.time() - MARGIN_S
        answering = self._loop.create_task(self._answer(query))
        try:
            await asyncio.wait([answering], timeout=max(within_s, MARGIN_S))
            if not answering.done():
                reason = "the store is being taken back to that time; call again in a few seconds"
                self._publish(reply, output_answer(error_answer(SNAPSHOT_PENDING, reason)))
                await asyncio.wait([answering])
                return
        except asyncio.CancelledError:
            answering.cancel()
            self._publish(reply, output_answer(error_answer(*OWNER_LEAVES)))
            raise
        self._publish(reply, output_answer(answering.result()))
        self._postpone_removal()

    async def _answer(self, query: Query) -> bytes:
        """Return the answer as JSON, with the state that was read."""
        running = self._run_with_snapshots(query)
        (answer,) = await asyncio.gather(running, return_exceptions=True)
        if isinstance(answer, bytes):
            return answer
        if isinstance(answer, Refused):
            return error_answer(answer.code, str(answer))
        if isinstance(answer, StoreBusy | StoreBroken):
            return error_answer(UNAVAILABLE, str(answer))
        name = query.operation.name
        log.error("call_failed", operation=name, exc_info=answer)
        reason = f"{name} failed: {type(answer).__name__}: {describe_error(answer)}"
        return error_answer(BROKEN, reason)

    async def drop(self) -> None:
        """Remove all snapshots, also those that are being made."""
        if self._snapshots is not None:
            await self._run(Snapshots.drop_all)

    def close(self) -> None:
        """Refuse what waits, and remove all snapshots."""
        for task in self._tasks:
            task.cancel()
        if self._unused is not None:
            self._unused.cancel()
        if self._snapshots is not None:
            self._executor.submit(self._snapshots.close)
        self._executor.shutdown(wait=False)

    def _postpone_removal(self) -> None:
        """Remove the snapshots after a while without a query."""
        if self._unused is not None:
            self._unused.cancel()
        self._unused = self._loop.call_later(UNUSED_S, self._remove_unused)

    def _remove_unused(self) -> None:
        if not self._tasks and self._snapshots is not None:
            self._executor.submit(self._snapshots.drop_all)

    async def _run_with_snapshots(self, query: Query) -> bytes:
        """Run a query, and again after each snapshot that it lacks."""
        found = dict[str, Found]()
        while True:
            try:
                today_ms = self._shared.clock.now_ms
                run = partial(_run_query, query, found, self._answer_bytes, today_ms)
                answer = await self._run(run)
                if answer is not None:
                    return answer
            except VectorPending as pending:
                await asyncio.sleep(pending.after_s)
            except SnapshotMissing as missing:
                await self._prepare(query, missing.memory_id, found)

    async def _prepare(self, query: Query, memory_id: str, found: dict[str, Found]) -> None:
        """Make the snapshot of a store."""
        as_of = query.question.as_of
        assert isinstance(as_of, str)
        if found and memory_id not in found and as_of.startswith("n:"):
            raise Refused(
                f"{as_of} is a change of {query.memory_id}, and this call reads {memory_id} too: "
                "give a time"
            )
        if memory_id not in found:
            find = partial(_find_state, memory_id=memory_id, as_of=as_of)
            found[memory_id] = await self._thread.run(find)
        state, path = found[memory_id]
        await self._run(partial(Snapshots.make, memory_id=memory_id, source=path, state=state))
        await self._make_vectors(SnapshotKey(memory_id, state.change))

    async def _make_vectors(self, key: SnapshotKey) -> None:
        """Make the vectors of texts that came back, as far as the embedder can."""
        if not await self._run(partial(_has_backlog, key=key)):
            return
        embedding = self._shared.embedding
        with suppress(EmbeddingFault):
            fingerprint = await self._run(partial(_find_fingerprint, key=key))
            embedder = await embedding.run(partial(embedding.embedder.of_store, fingerprint))
            while task := await self._run(partial(_next_task, key=key, embedder=embedder)):
                if task.one is None:
                    continue
                made = await embedding.run(partial(compute_vectors, embedder, task.texts))
                await self._run(partial(_store_vectors, key=key, one=task.one, made=made))

    async def _run(self, work: Callable[[Snapshots], Result]) -> Result:
        """Run work in the thread of the snapshots."""
        if self._snapshots is None:
            most_bytes = self._shared.limits.snapshot_bytes
            make = partial(OpenStores.make_snapshots, most_bytes=most_bytes)
            self._snapshots = await self._thread.run(make)
        return await self._loop.run_in_executor(self._executor, work, self._snapshots)


def _find_state(stores: OpenStores, memory_id: str, as_of: str) -> Found:
    """Return the state of a store at a time. Raises Refused."""
    if not stores.exists(memory_id):
        return Found(PastState(0, 0), None)
    store = stores.get(memory_id)
    return Found(store.table(PastStates).find(as_of), Path(store.path))


def _run_query(
    query: Query,
    found: Mapping[str, Found],
    answer_bytes: int,
    today_ms: int,
    snapshots: Snapshots,
) -> bytes | None:
    """Return the answer to a query with the state that was read. None if it has to continue.

    Raises SnapshotMissing.
    """
    stores = PastStores(snapshots, found, today_ms)
    state, incomplete = stores.snapshot(query.memory_id)[1:]
    as_of = query.question.as_of
    assert isinstance(as_of, str)
    (answer,) = answer_all(stores, [query], answer_bytes, parse_ms(as_of) or state.at_ms)
    if answer is None or not answer.startswith(OUTPUT):
        return answer
    read = {"change": state.change, "at": format_time(state.at_ms), "incomplete": incomplete}
    return add_member(answer, AS_OF, read)


def _store_of(snapshots: Snapshots, key: SnapshotKey) -> Store:
    snapshot = snapshots.find(key)
    if snapshot is None:
        raise SnapshotMissing(key.memory_id)
    return snapshot.store


def _has_backlog(snapshots: Snapshots, key: SnapshotKey) -> bool:
    vectors = _store_of(snapshots, key).vectors
    return any(vectors.backlog(one) for one in vectors.sets())


def _find_fingerprint(snapshots: Snapshots, key: SnapshotKey) -> str:
    return _store_of(snapshots, key).vectors.fingerprint


def _next_task(snapshots: Snapshots, key: SnapshotKey, embedder: Embedder) -> EmbeddingTask | None:
    return next_task(_store_of(snapshots, key), embedder, False, TEXTS_TOGETHER, keeps_next=True)


def _store_vectors(
    snapshots: Snapshots, key: SnapshotKey, one: VectorSet, made: Sequence[Made]
) -> None:
    store_vectors(_store_of(snapshots, key), one, made)
