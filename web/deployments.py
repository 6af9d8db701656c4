"""Deploying and removing pipelines: the catalogue first, then word to the workers."""
import time

from bus.errors import BusError
from bus.line import Line
from bus.wire import CHANGES
from memory.catalog import Catalog, Deployed
from pipelines.check import CheckedBundle


class Deployments:
    """Changes what is in service. Workers that hear of it act at once, others when they look again."""

    def __init__(self, catalog: Catalog, line: Line | None) -> None:
        """Without a bus there is nobody to tell, and the change stands all the same."""
        self._catalog, self._line = catalog, line

    async def deploy(self, bundle: CheckedBundle) -> Deployed:
        """Makes a bundle the active one of its pipeline. Raises StoreBusy."""
        now_ms = time.time_ns() // 1_000_000
        deployed = await self._catalog.deploy(bundle.uid, bundle.name, bundle.hash, bundle.source, now_ms)
        await self._announce("deployed")
        return deployed

    async def remove(self, uid: str) -> bool:
        """Takes a pipeline out of service, and says whether there was one; its records stay. Raises StoreBusy."""
        removed = await self._catalog.remove(uid)
        if removed:
            await self._announce("removed")
        return removed

    async def _announce(self, what: str) -> None:
        if self._line is None:
            return
        try:
            await self._line.call("PUBLISH", CHANGES, what)
        except BusError:
            return
