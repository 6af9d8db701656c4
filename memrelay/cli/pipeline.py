"""Look up deployed pipelines: their swarms, agents and chat commands, and their stores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memrelay.cli.backups.store_files import open_store_files
from memrelay.cli.composition import fail, find_pipeline, open_catalog
from memrelay.cli.settings import Settings
from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.transfer.backup import BackedUpPipeline, StoreFiles
from memrelay.pipelines.check import CheckedBundle, check
from memrelay.pipelines.commands import list_commands
from memrelay.pipelines.plan import Plan


@dataclass(frozen=True, slots=True)
class PipelineInterface:
    """The swarms, agents and chat commands of a pipeline.

    aliases: the agents that accept direct messages.
    blocks: the names under which blocks answer.
    commands: "/write" and the like, with their descriptions.
    swarm_owner: returns the owner of a swarm, which is part of the key of its log.
    """

    uid: str
    name: str
    swarms: tuple[str, ...]
    aliases: tuple[str, ...]
    blocks: frozenset[str]
    commands: dict[str, str]
    swarm_owner: Callable[[str], str]

    def check_swarm(self, swarm: str) -> None:
        """End the command if the pipeline has no such swarm."""
        if swarm not in self.swarms:
            fail(
                f"pipeline {self.name} has no swarm {swarm!r}; choose one with --swarm: "
                f"{_join_names(self.swarms)}"
            )

    def check_agent(self, alias: str) -> None:
        """End the command if no agent with this alias accepts messages."""
        if alias not in self.aliases:
            fail(
                f"pipeline {self.name} has no agent {alias!r} that accepts messages; choose one "
                f"with --agent: {_join_names(self.aliases)}"
            )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "there are none"


async def look_up(settings: Settings, uid_or_name: str) -> PipelineInterface:
    """Return the interface of an active pipeline. End the command if there is none."""
    return _make_interface(await load_bundle(settings, uid_or_name))


async def load_bundle(settings: Settings, uid_or_name: str) -> CheckedBundle:
    """Return the bundle of an active pipeline. End the command if there is none."""
    async with open_catalog(settings) as catalog:
        deployed = await find_pipeline(catalog, uid_or_name)
        source = await catalog.source(deployed.hash)
    checked = check(source or b"")
    if checked.bundle is None:
        fault = checked.faults[0]
        remedy = fault.suggestion or "correct the output of `memrelay export` and deploy it"
        fail(
            f"this version of Memrelay rejects the bundle of {deployed.name} ({deployed.uid}): "
            f"{fault.rule}; {remedy}"
        )
    return checked.bundle


def _make_interface(bundle: CheckedBundle) -> PipelineInterface:
    return PipelineInterface(
        bundle.uid,
        bundle.name,
        bundle.swarms,
        tuple(agent.agent.alias for agent in bundle.agents if agent.takes_messages),
        frozenset(agent.agent.name for agent in bundle.agents if agent.calls),
        dict(list_commands(bundle)),
        bundle.swarm_owner,
    )


async def find_uid(catalog: Catalog, uid_or_name: str) -> str:
    """Return the uid of an active pipeline, or of a deactivated one given by its uid.

    End the command if there is none.
    """
    if await catalog.find(uid_or_name) is None and await catalog.versions(uid_or_name):
        return uid_or_name
    return (await find_pipeline(catalog, uid_or_name)).uid


async def pipelines_with_stores(settings: Settings, names: Sequence[str]) -> list[BackedUpPipeline]:
    """Return these pipelines with their stores, or all active ones if `names` is empty.

    End the command if one is not active.
    """
    async with open_catalog(settings) as catalog:
        selected = [await find_pipeline(catalog, name) for name in names] or await catalog.active()
        with open_store_files(settings) as files:
            return [await _with_stores(files, catalog, one) for one in selected]


async def _with_stores(files: StoreFiles, catalog: Catalog, deployed: Deployed) -> BackedUpPipeline:
    """Return a pipeline with the stores that its bundle names, and the other ones that exist."""
    checked = check(await catalog.source(deployed.hash) or b"", uid=deployed.uid)
    plan = Plan(checked.bundle) if checked.bundle else None
    stores = (
        []
        if plan is None
        else [name for name in plan.all_stores if name in plan.stores or files.exists(name)]
    )
    return BackedUpPipeline(deployed.uid, deployed.name, deployed.hash, deployed.version, stores)


def select_stores(
    settings: Settings, names: Sequence[str], pipelines: Sequence[BackedUpPipeline]
) -> list[str]:
    """Return the stores of the pipelines, or all stores if `names` is empty.

    All stores include those of deactivated pipelines and missing stores with a damage note.
    """
    root, stores = settings.memory.root, [store for one in pipelines for store in one.stores]
    if not names:
        noted = [store for store in stores if note_of(store_path(root, store)).exists()]
        with open_store_files(settings) as files:
            stores = [*files.list(), *noted]
    return list(dict.fromkeys(stores))
