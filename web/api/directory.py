"""Which pipelines are in service: the catalogue, looked at no more than once a second unless
somebody asks in vain."""

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
    """A pipeline in service."""

    deployed: Deployed
    bundle: CheckedBundle
    agents: dict[str, CheckedAgent]  # by alias
    swarms: tuple[str, ...]  # in the order of the bundle

    @classmethod
    def of(cls, deployed: Deployed, bundle: CheckedBundle) -> Self:
        """From its bundle."""
        return cls(
            deployed, bundle, {agent.agent.alias: agent for agent in bundle.agents}, bundle.swarms
        )

    def agent(self, alias: str) -> CheckedAgent:
        """The agent of that alias. Raises NotFound."""
        agent = self.agents.get(alias)
        if agent is None:
            aliases = ", ".join(self.agents)
            raise NotFound(
                f"pipeline {self.deployed.name} has no agent {alias[:100]!r}; it has {aliases}"
            )
        return agent


class Directory:
    """Finds pipelines by uid."""

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._catalog, self._clock = catalog, clock
        self._read_at = self._changed_at = -inf
        self._reading: asyncio.Task[None] | None = None
        self._served: dict[str, Served] = {}
        self._bundles: dict[
            str, CheckedBundle | None
        ] = {}  # by hash; None for one that this program does not accept

    def forget(self) -> None:
        """The catalogue has changed."""
        self._changed_at, self._reading = self._clock(), None

    async def all(self, *, anew: bool = False) -> list[Served]:
        """Every pipeline, by name; `anew` where somebody asked in vain. Raises StoreBusy."""
        if anew:
            self.forget()
        if not self._is_fresh():
            await self._refresh()
        return list(self._served.values())

    async def find(self, uid: str) -> Served:
        """The pipeline of that uid. Raises NotFound and StoreBusy."""
        served = self._served.get(uid)
        if served is None or not self._is_fresh():
            joined = await self._refresh()
            served = self._served.get(uid)
            if (
                served is None and joined
            ):  # the reading may have begun before the pipeline was there
                await self._refresh()
                served = self._served.get(uid)
        if served is None:
            raise no_pipeline(uid)
        return served

    def _is_fresh(self) -> bool:
        return self._read_at > self._changed_at and self._clock() - self._read_at < FRESH_S

    async def _refresh(self) -> bool:
        """Reads the catalogue. Who comes while it is read waits for the same reading, and learns
        that."""
        joined = self._reading is not None and not self._reading.done()
        if self._reading is None or not joined:
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)
        return joined

    async def _read(self) -> None:
        began, active = self._clock(), await self._catalog.active()
        bundles = {
            one.hash: self._bundles[one.hash]
            if one.hash in self._bundles
            else await self._load(one.hash)
            for one in active
        }
        if began >= self._read_at:  # else a later reading was quicker
            self._bundles, self._read_at = bundles, began
            self._served = {
                one.uid: Served.of(one, bundle)
                for one in active
                if (bundle := bundles[one.hash]) is not None
            }

    async def _load(self, bundle_hash: str) -> CheckedBundle | None:
        source = await self._catalog.source(bundle_hash)
        return None if source is None else check(source).bundle
