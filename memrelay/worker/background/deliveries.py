"""Sends the changes of a pipeline's stores to its endpoints.

What sends is loaded with the first endpoint: a worker without one has only this task, which waits.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from memrelay.logs import get_logger
from memrelay.memory.engine.models import load
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.store_features import ENDPOINTS, compose_stores
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import wait

if TYPE_CHECKING:
    from memrelay.worker.endpoints.courier import Courier

log = get_logger(__name__)
# After a store could not be used.
FAULT_PAUSE_S = 1.0
# Requests of several events share a look at the stores. While many wait and messages come,
# deliveries are slower: with both on two processors, messages would lose half of their rate.
GATHER_S, BUSY_PAUSE_S = 0.005, 0.1
# Loads the HTTP client.
COURIER = "memrelay.worker.endpoints.courier:Courier"
SYNCHRONIZE = "memrelay.worker.endpoints.declared:synchronize"


class DeliveryTask:
    """Delivers for the pipelines of one group. Its steps on stores run between two batches."""

    def __init__(
        self, plans: Sequence[Plan], thread: DatabaseThread, shared: WorkerContext
    ) -> None:
        self._plans, self._thread, self._shared = plans, thread, shared
        # The stores of endpoints.
        self.stores = frozenset(plan.built_in_stores[ENDPOINTS] for plan in plans)
        self._woken = asyncio.Event()
        self._couriers: list[Courier] = []
        # Whether a pipeline has endpoints, and whether no delivery waits, as far as is known.
        self.has_endpoints = any(plan.endpoints for plan in plans)
        self._is_resting = False
        # New endpoints of a bundle get the changes since its deploy, also if clocks differ.
        self._begun_ms, self._is_synchronized = shared.clock.now_ms, False
        # Whether a batch has come since the last round.
        self._has_batch = False

    @property
    def is_idle(self) -> bool:
        """Whether no change is to be delivered, and no delivery waits."""
        return self._is_resting and not self._woken.is_set()

    def rest(self, *, has_endpoints: bool) -> None:
        """Begin with the knowledge that nothing waits."""
        self.has_endpoints |= has_endpoints
        self._is_resting = True

    def describe(self, plan: Plan) -> dict[str, Any] | None:
        """Return the figures of a pipeline's deliveries; None without endpoints, and before they
        are known.
        """
        store = plan.built_in_stores[ENDPOINTS]
        hired = (courier for courier in self._couriers if courier.store == store)
        return next((courier.figures.read() for courier in hired), None)

    def note_changes(self) -> None:
        """Announce that a batch has made changes."""
        self._has_batch = True
        self._woken.set()

    def note_dead_letters(self) -> None:
        """Announce that dead letters were stored."""
        for courier in self._couriers:
            courier.note_dead_letters()
        self._woken.set()

    async def configure(self) -> None:
        """Give all stores the change feed that deliveries are made of, after a change of
        endpoints.
        """
        await self._thread.run(partial(_compose, self._plans))
        self.has_endpoints = True
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled or fenced. Raises nothing: batches report unusable stores."""
        try:
            if self._is_resting:
                await self._woken.wait()
            while True:
                self._woken.clear()
                pause_s = await self._run_round()
                await wait(self._woken, pause_s)
                has_backlog = any(courier.has_backlog for courier in self._couriers)
                await asyncio.sleep(BUSY_PAUSE_S if has_backlog and self._has_batch else GATHER_S)
        except StoreFenced:
            log.warning("deliveries_stopped", stores=sorted(self.stores))
        finally:
            for courier in self._couriers:
                await courier.close()

    async def _run_round(self) -> float | None:
        """Make one step for each pipeline with endpoints. Return the seconds until the next one."""
        self._is_resting = self._has_batch = False
        try:
            await self._hire()
            pauses = [await courier.run_round() for courier in self._couriers]
        except (StoreBusy, StoreBroken) as error:
            log.warning("deliveries_wait", stores=sorted(self.stores), reason=str(error))
            return FAULT_PAUSE_S
        self._is_resting = all(courier.is_idle for courier in self._couriers)
        return min((pause_s for pause_s in pauses if pause_s is not None), default=None)

    async def _hire(self) -> None:
        """Create the couriers of the pipelines with endpoints, after those of their bundles."""
        if not self._is_synchronized:
            step = partial(_synchronize, self._plans, self._begun_ms)
            await self._thread.run(step)
            self._is_synchronized = True
        hired = {courier.store for courier in self._couriers}
        if hired == self.stores:
            return
        found = await self._thread.run(partial(_find_existing, names=self.stores - hired))
        self.has_endpoints |= bool(found)
        for plan in self._plans if found else ():
            if plan.built_in_stores[ENDPOINTS] in found:
                courier: Courier = load(COURIER)(plan, self._thread, self._shared, self._woken.set)
                await courier.open()
                self._couriers.append(courier)


def _compose(plans: Sequence[Plan], stores: OpenStores) -> None:
    compose_stores(plans, stores)


def _synchronize(plans: Sequence[Plan], since_ms: int, stores: OpenStores) -> None:
    for plan in plans:
        if plan.endpoints or stores.exists(plan.built_in_stores[ENDPOINTS]):
            load(SYNCHRONIZE)(stores, plan, min(since_ms, plan.deployed_at_ms))


def _find_existing(stores: OpenStores, names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if stores.exists(name))
