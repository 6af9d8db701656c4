"""The active pipelines, read from the catalog at most once a second."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Self

from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.pipelines.check import CheckedAgent, CheckedBundle, check
from memrelay.web.server.errors import NotFound, no_pipeline

FRESH_S = 1.0


class Served(NamedTuple):
    """An active pipeline. `agents` is by alias. `swarms` has the order of the bundle."""

    deployed: Deployed
    bundle: CheckedBundle
    agents: dict[str, CheckedAgent]
    swarms: tuple[str, ...]

    @classmethod
    def of(cls, deployed: Deployed, bundle: CheckedBundle) -> Self:
        """Create it from a checked bundle."""
        return cls(
            deployed, bundle, {agent.agent.alias: agent for agent in bundle.agents}, bundle.swarms
        )

    def get_agent(self, alias: str) -> CheckedAgent:
        """Return the agent with this alias. Raises NotFound."""
        agent = self.agents.get(alias)
        if agent is None:
            aliases = ", ".join(self.agents)
            raise NotFound(
                f"pipeline {self.deployed.name} has no agent {alias[:100]!r}; it has {aliases}"
            )
        return agent


class Directory:
    """Finds active pipelines by uid. `clock` returns seconds."""

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        self._catalog, self._clock = catalog, clock
        self._read_at = self._changed_at = -inf
        self._reading: asyncio.Task[None] | None = None
        self._served: dict[str, Served] = {}
        # By hash. None for a bundle that this release does not accept.
        self._bundles: dict[str, CheckedBundle | None] = {}

    def remember(self, bundle: CheckedBundle) -> None:
        """Keep a bundle that was just deployed, so that it is not checked again."""
        self._bundles[bundle.hash] = bundle

    def invalidate(self) -> None:
        """Discard the cached pipelines after a change of the catalog."""
        self._changed_at, self._reading = self._clock(), None

    async def list_pipelines(self, *, refresh: bool = False) -> list[Served]:
        """Return all active pipelines by name. Raises StoreBusy."""
        if refresh:
            self.invalidate()
        if not self._is_fresh():
            await self._refresh()
        return list(self._served.values())

    async def find(self, uid: str) -> Served:
        """Return the pipeline with this uid. Raises NotFound and StoreBusy."""
        served = self._served.get(uid)
        if served is None or not self._is_fresh():
            joined = await self._refresh()
            served = self._served.get(uid)
            # A shared read may have begun before the pipeline was deployed.
            if served is None and joined:
                await self._refresh()
                served = self._served.get(uid)
        if served is None:
            raise no_pipeline(uid)
        return served

    def _is_fresh(self) -> bool:
        return self._read_at > self._changed_at and self._clock() - self._read_at < FRESH_S

    async def _refresh(self) -> bool:
        """Read the catalog. Return whether this call joined a read that was already running."""
        joined = self._reading is not None and not self._reading.done()
        if self._reading is None or not joined:
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)
        return joined

    async def _read(self) -> None:
        started_at, active = self._clock(), await self._catalog.active()
        bundles = {}
        for one in active:
            is_known = one.hash in self._bundles
            bundles[one.hash] = (
                self._bundles[one.hash] if is_known else await self._load_bundle(one.hash)
            )
        if started_at < self._read_at:
            # A later read finished first.
            return
        self._bundles, self._read_at = bundles, started_at
        self._served = {
            one.uid: Served.of(one, bundle)
            for one in active
            if (bundle := bundles[one.hash]) is not None
        }

    async def _load_bundle(self, bundle_hash: str) -> CheckedBundle | None:
        source = await self._catalog.source(bundle_hash)
        return None if source is None else (await asyncio.to_thread(check, source)).bundle
