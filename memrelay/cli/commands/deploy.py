"""`memrelay deploy FILE`: check a bundle and activate it."""

from collections.abc import Sequence
from typing import Annotated

import typer

from memrelay.cli.composition import fail, make_catalog, note, run, run_with_settings
from memrelay.cli.deployment import deployments, print_deployed, read_bundle
from memrelay.cli.options import BundleFile, IfMatch, JsonAnyway, make_precondition
from memrelay.cli.settings import Settings
from memrelay.memory.control.catalog import Deployed
from memrelay.pipelines.checked import BundleRefused

Uid = Annotated[
    str | None,
    typer.Option(
        metavar="UID",
        help="Deploy as this pipeline. By default the pipeline_uid of the bundle, or a new one.",
    ),
]


def deploy(
    file: BundleFile, *, uid: Uid = None, if_match: IfMatch = None, as_json: JsonAnyway = False
) -> None:
    """Check a bundle and activate it. Print {pipeline_uid, name, hash, version, served}."""
    checked = run_with_settings(lambda settings: read_bundle(settings, file, uid))

    async def command(settings: Settings) -> None:
        async with make_catalog(settings) as catalog:
            before = await catalog.active()
        async with deployments(settings) as service:
            try:
                swapped = await service.deploy(checked.accepted(), make_precondition(if_match))
            except BundleRefused as error:
                fail(str(error))
            _print_likely_mistakes(swapped.after, before)
            await print_deployed(service, swapped.after)

    run(command)


def _print_likely_mistakes(deployed: Deployed, before: Sequence[Deployed]) -> None:
    """Note a second pipeline with the same name, and a uid that got another name."""
    for one in before:
        if one.uid == deployed.uid and one.name != deployed.name:
            note(f"pipeline {one.uid} was named {one.name}; now it is {deployed.name}")
        elif one.name == deployed.name and one.uid != deployed.uid:
            note(
                f"pipeline {one.uid} is also named {one.name}; to replace it: "
                f"memrelay deploy FILE --uid {one.uid}"
            )
