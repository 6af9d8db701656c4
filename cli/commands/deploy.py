"""`memrelay deploy FILE`: checks a bundle and puts it in service."""

from collections.abc import Sequence
from typing import Annotated

import typer

from memrelay.cli.composition import note, run, settled
from memrelay.cli.deployment import deployments, read_bundle, tell
from memrelay.cli.options import BundleFile, IfMatch, JsonAnyway, expected_by
from memrelay.cli.settings import Settings
from memrelay.memory.control.catalog import Catalog, Deployed

Uid = Annotated[
    str | None,
    typer.Option(
        metavar="UID",
        help="Deploy as this pipeline; without, the bundle's pipeline_uid, else a new one.",
    ),
]


def deploy(
    file: BundleFile, *, uid: Uid = None, if_match: IfMatch = None, as_json: JsonAnyway = False
) -> None:
    """Check a bundle and put it in service; prints {pipeline_uid, name, hash, version, served}."""
    checked = settled(lambda _: read_bundle(file, uid))

    async def command(settings: Settings) -> None:
        async with Catalog(settings.memory.root) as catalog:
            before = await catalog.active()
        async with deployments(settings) as service:
            deployed = (await service.deploy(checked.accepted(), expected_by(if_match))).after
            _tell_what_may_be_meant(deployed, before)
            await tell(service, deployed)

    run(command)


def _tell_what_may_be_meant(deployed: Deployed, before: Sequence[Deployed]) -> None:
    """A second pipeline of a name, and another one under a uid, are rarely wanted."""
    for one in before:
        if one.uid == deployed.uid and one.name != deployed.name:
            note(f"pipeline {one.uid} was {one.name}; it is {deployed.name} now")
        elif one.name == deployed.name and one.uid != deployed.uid:
            note(
                f"{one.name} is in service as {one.uid} too; to replace that one: memrelay deploy FILE --uid {one.uid}"
            )
