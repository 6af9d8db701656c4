"""The stores of pipelines in service, for the commands that work on files."""
from collections.abc import Sequence

from cli.composition import fail, pipeline_named
from cli.settings import Settings
from memory.backup import BackedUpPipeline
from memory.catalog import Catalog, Deployed
from memory.memory_id import stores_below
from pipelines.check import check
from pipelines.plan import Plan


async def pipelines_with_stores(settings: Settings, names: Sequence[str]) -> list[BackedUpPipeline]:
    """These pipelines, or all; with the stores that each names. Ends the command where one is not in service."""
    if not (settings.memory.root / "system.db").is_file():
        fail(f"nothing is stored in {settings.memory.root}; memory.root names another folder")
    async with Catalog(settings.memory.root) as catalog:
        wanted = [await pipeline_named(catalog, name) for name in names] or await catalog.active()
        return [await _with_stores(catalog, one) for one in wanted]


async def _with_stores(catalog: Catalog, deployed: Deployed) -> BackedUpPipeline:
    checked = check(await catalog.source(deployed.hash) or b"", uid=deployed.uid)
    stores = list(Plan(checked.bundle).stores) if checked.bundle else []
    return BackedUpPipeline(deployed.uid, deployed.name, deployed.hash, deployed.version, stores)


def wanted_stores(settings: Settings, names: Sequence[str], pipelines: Sequence[BackedUpPipeline]) -> list[str]:
    """The stores of the pipelines that were named, or every store that is there: of pipelines that were taken out too."""
    if not names:
        return stores_below(settings.memory.root)
    return list(dict.fromkeys(store for one in pipelines for store in one.stores))
