"""Recovery: the steps of a group before it takes new entries.

The group takes over its stores, runs what was in flight, and clears the journal of attempts.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import product
from typing import NamedTuple

from memrelay.bus.streams.input_stream import raise_last_id
from memrelay.logs import get_logger
from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBroken, StoreFenced
from memrelay.pipelines.plan import Plan
from memrelay.worker.ownership.group_lease import GroupLease
from memrelay.worker.run.busy_retry import BusyRetry
from memrelay.worker.run.inputs import parse_arrival
from memrelay.worker.run.store_features import compose_stores
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import system_time_ms

log = get_logger(__name__)


class Recovery:
    """Call `take_over`, then run what was in flight, then call `end`.

    `stores` are those of the bundle versions in service. `built_in_stores` are the stores of named
    memories that no bundle names, although an earlier version may have used them.
    """

    def __init__(
        self,
        stores: Sequence[str],
        built_in_stores: Collection[str],
        retry: BusyRetry,
        shared: WorkerContext,
    ) -> None:
        self._stores, self._built_in_stores = tuple(stores), built_in_stores
        self._retry, self._shared = retry, shared
        self._former: tuple[str, ...] = ()
        # By pipeline: the first store that its bundle names.
        self._first_stores: dict[str, str] = {}
        self.is_running = True
        # Whether a store keeps inputs to run.
        self.has_pending = True

    @property
    def former(self) -> tuple[str, ...]:
        """Stores of earlier bundle versions during recovery: their inboxes may know an input."""
        return (*self._former, *self._built_in_stores) if self.is_running else ()

    def skip(self) -> None:
        """Note that there is nothing to recover."""
        self.is_running = self.has_pending = False

    async def take_over(self, lease: GroupLease) -> None:
        """Fence earlier owners out of the stores.

        If a store has a higher epoch, because the bus lost its own, the lease surpasses it.
        """
        self._first_stores = {plan.uid: plan.stores[0] for plan in lease.plans}
        former = await self._find_former_stores(lease)
        take_over = partial(_take_over, names=self._stores, former=former, plans=lease.plans)
        while True:
            try:
                taken = await self._retry.in_thread(partial(take_over, epoch=lease.epoch))
            except StoreFenced as fenced:
                await lease.surpass(fenced.epoch)
                continue
            self._former, self.has_pending = taken.former, taken.has_pending
            self._retry.stores = (*self._stores, *self._former)
            self._shared.checkpoint("taken over")
            return await self._surpass_ids(lease, taken.last_entries)

    async def _surpass_ids(self, lease: GroupLease, known: dict[str, tuple[int, int]]) -> None:
        """Keep the server from assigning IDs again that the stores know."""
        for uid, (ms, number) in known.items():
            last = f"{ms}-{number}"
            if (
                uid in lease.uids
                and lease.may_reuse_ids(uid, (ms, number))
                and await raise_last_id(lease.control, uid, last)
            ):
                log.warning(
                    "input_had_lost_entries",
                    pipeline=uid,
                    reason=f"the server no longer knows {last}, which was processed",
                )

    async def end(self) -> dict[str, list[str]]:
        """Clear the journal of attempts. Return, per store, the inputs that cannot come back."""
        self._retry.stores = self._stores
        settled = await self._retry.in_thread(partial(clear_attempts, names=self._stores))
        uids, now_ms = [*self._first_stores], system_time_ms()
        recover = partial(recover_models, names=self._stores, uids=uids, now_ms=now_ms)
        await self._retry.in_thread(recover)
        await self._move_keys(self._former)
        if self._former:
            await self._retry.in_thread(partial(close_stores, names=self._former))
        self.is_running = False
        self._shared.checkpoint("recovered")
        return settled

    async def _move_keys(self, former: Sequence[str]) -> None:
        """Move the producers' idempotency keys to the stores in which they are looked up now.

        The keys of calls stay in the built-in store, where they are looked up too.
        """
        for old in (*former, *self._built_in_stores):
            uid, with_calls = old.split("/")[1], old not in self._built_in_stores
            if uid in self._first_stores:
                new = self._first_stores[uid]
                move = partial(_move_some_keys, uid=uid, old=old, new=new, with_calls=with_calls)
                while await self._retry.in_thread(move):
                    self._shared.checkpoint("ids moved")

    async def _find_former_stores(self, lease: GroupLease) -> list[str]:
        """Return the pipelines' stores that no version in service uses.

        Only they know what an earlier version has left. Also check the recorded commits, and narrow
        `built_in_stores` to existing stores.
        """
        found = await self._retry.in_thread(
            partial(_check_and_find, commits=lease.commits, uids=lease.uids)
        )
        self._built_in_stores = [name for name in self._built_in_stores if name in found]
        if found := [name for name in found if name not in self._stores]:
            active = await self._retry.attempt(self._shared.plans.active)
            found = [name for name in found if all(name not in plan.stores for plan in active)]
        return found


def close_stores(stores: OpenStores, names: Sequence[str]) -> None:
    """Checkpoint and close stores, so that another thread can open them."""
    for name in names:
        stores.close(name)


class _Taken(NamedTuple):
    """The state of the stores. `last_entries` has the highest entry ID by pipeline."""

    former: tuple[str, ...]
    last_entries: dict[str, tuple[int, int]]
    has_pending: bool


def _take_over(
    stores: OpenStores,
    names: Sequence[str],
    former: Sequence[str],
    plans: Sequence[Plan],
    epoch: int,
) -> _Taken:
    """Raises StoreFenced if a store has a higher epoch."""
    compose_stores(plans, stores)
    for name in names:
        stores.take_over(name, epoch)
    usable = _take_over_former(stores, former, epoch)
    existing = [name for name in (*names, *usable) if stores.exists(name)]
    has_pending = any(stores.get(name).pending.has_any() for name in existing)
    return _Taken(usable, _last_entries(stores, existing), has_pending)


def _take_over_former(stores: OpenStores, names: Sequence[str], epoch: int) -> tuple[str, ...]:
    """Return the former stores that can be used. No pipeline needs the others.

    Raises StoreFenced.
    """
    found = []
    for name in names:
        try:
            stores.take_over(name, epoch)
        except StoreBroken as error:
            log.warning("former_store_left_out", memory_id=name, reason=str(error))
            continue
        found.append(name)
    return tuple(found)


def _check_and_find(
    stores: OpenStores, commits: Iterable[tuple[str, str]], uids: Iterable[str]
) -> list[str]:
    """Return all stores that these pipelines ever had. Raises StoreDamaged."""
    found = [name for uid in uids for name in stores.below(f"instances/{uid}")]
    stores.check_commits(commits)
    return found


def clear_attempts(stores: OpenStores, names: Sequence[str]) -> dict[str, list[str]]:
    """Return, per store, the inputs in its inbox that cannot come back.

    A continuation that a store still keeps can.
    """
    existing = [name for name in names if stores.exists(name)]
    kept = {pending.id for name in existing for pending in stores.get(name).pending.all()}
    for name in existing:
        if stores.get(name).inbox.has_attempts():
            with stores.get(name).transaction() as store:
                store.inbox.clear_attempts()
    return {
        name: [key for key in stores.get(name).inbox.numbers if key not in kept]
        for name in existing
    }


def recover_models(
    stores: OpenStores, names: Sequence[str], uids: Sequence[str], now_ms: int
) -> None:
    """Let the models end what belongs to deferred calls that no store keeps any more."""
    existing = [name for name in names if stores.exists(name)]
    running = {one.deferred_call_id for name in existing for one in stores.get(name).pending.all()}
    for hook in list_hooks("recover"):
        recover = load(hook)
        for uid, name in product(uids, existing):
            recover(stores.get(name), uid, running, now_ms)


def _last_entries(stores: OpenStores, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return, by pipeline, the highest entry ID in the inboxes of these stores."""
    last: dict[str, tuple[int, int]] = {}
    for name in names:
        for key in stores.get(name).inbox.numbers:
            uid, _, ident = key.partition("/")
            arrival = parse_arrival(ident)
            last[uid] = max(arrival, last.get(uid, arrival))
    return last


def _move_some_keys(stores: OpenStores, uid: str, old: str, new: str, with_calls: bool) -> bool:
    """Move some of a pipeline's idempotency keys. Return whether there were any.

    After a crash between the two commits, the keys are in both stores and move again.
    """
    if not stores.exists(old):
        return False
    kept = stores.get(old).inbox.keys.list_some(uid, with_calls=with_calls)
    if not kept:
        return False
    with stores.get(new).transaction() as store:
        store.inbox.keys.take_in(kept)
    with stores.get(old).transaction() as store:
        store.inbox.keys.forget(kept)
    return True


# Groups that recover at a time. While one waits for the bus, others use the database threads.
TOGETHER = 4
# The next group begins after this time, even if a store is locked or a block hangs.
PATIENCE_S = 0.5


class RecoveryTurns:
    """Grants turns of recovery in the order in which groups ask for them.

    If all groups recovered together, each would lose its open store to the others between two
    steps.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(TOGETHER)
        # Groups that have not recovered.
        self.unfinished = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and end it with the block or after PATIENCE_S."""
        self.unfinished += 1
        try:
            await self._free.acquire()
            turn = _Turn(self._free)
            try:
                yield
            finally:
                turn.end()
        finally:
            self.unfinished -= 1


class _Turn:
    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free, self._has_ended = free, False
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.end)

    def end(self) -> None:
        self._timer.cancel()
        if not self._has_ended:
            self._has_ended = True
            self._free.release()
