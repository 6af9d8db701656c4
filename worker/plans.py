"""The plans of the deployed bundles, and of older versions that continuations still run under."""

import logging
from collections.abc import Sequence

from memory.catalog import Catalog
from pipelines.check import check
from pipelines.faults import Fault
from pipelines.plan import Plan

log = logging.getLogger(__name__)


class PlanShelf:
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
                extra={
                    "pipeline": known[0],
                    "reason": reason,
                    "remedy": "start the worker again if a block was added meanwhile, else correct the bundle and deploy it",
                },
            )
