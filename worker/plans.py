"""The plans of the deployed bundles, and of older versions that continuations still run under."""
from memory.catalog import Catalog
from pipelines.check import check
from pipelines.plan import Plan


class PlanShelf:
    """Compiles a bundle when it is first needed, and keeps the plan."""

    def __init__(self, catalog: Catalog) -> None:
        """Bundles come from the catalogue, by their hash."""
        self._catalog = catalog
        self._plans: dict[tuple[str, str], Plan] = {}

    async def version(self, uid: str, bundle_hash: str) -> Plan | None:
        """The plan of one version; None where there is no such bundle, or this program does not accept it any more."""
        known = (uid, bundle_hash)
        if known not in self._plans:
            source = await self._catalog.source(bundle_hash)
            checked = check(source, uid=uid).bundle if source is not None else None
            if checked is None:
                return None
            self._plans[known] = Plan(checked)
        return self._plans[known]
