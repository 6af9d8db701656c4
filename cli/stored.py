"""The stores of pipelines in service, for the commands that work on files."""

from collections.abc import Sequence

from memrelay.cli.composition import pipeline_named, stored_catalog
from memrelay.cli.settings import Settings
from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.files.backup import BackedUpPipeline
from memrelay.memory.memory_id import path_of, stores_below
from memrelay.memory.sqlite.damage import note_of
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan


async def pipelines_with_stores(settings: Settings, names: Sequence[str]) -> list[BackedUpPipeline]:
    """These pipelines, or all; with the stores that each names. Ends the command where one is not
    in service."""
    async with stored_catalog(settings) as catalog:
        wanted = [await pipeline_named(catalog, name) for name in names] or await catalog.active()
        return [await _with_stores(settings, catalog, one) for one in wanted]


async def _with_stores(
    settings: Settings, catalog: Catalog, deployed: Deployed
) -> BackedUpPipeline:
    checked = check(await catalog.source(deployed.hash) or b"", uid=deployed.uid)
    plan = Plan(checked.bundle) if checked.bundle else None
    stores = (
        []
        if plan is None
        else [name for name in plan.every_store if name in plan.stores or _is_there(settings, name)]
    )
    return BackedUpPipeline(deployed.uid, deployed.name, deployed.hash, deployed.version, stores)


def _is_there(settings: Settings, memory_id: str) -> bool:
    """The store of named memories, which no bundle has to name."""
    path = path_of(settings.memory.root, memory_id)
    return path.exists() or note_of(path).exists()


def wanted_stores(
    settings: Settings, names: Sequence[str], pipelines: Sequence[BackedUpPipeline]
) -> list[str]:
    """The stores of the pipelines that were named, or every store that is there: of pipelines that
    were taken out too, and with
    those that are gone, as a note says.
    """
    root, theirs = settings.memory.root, [store for one in pipelines for store in one.stores]
    if not names:
        theirs = [
            *stores_below(root),
            *[store for store in theirs if note_of(path_of(root, store)).exists()],
        ]
    return list(dict.fromkeys(theirs))
