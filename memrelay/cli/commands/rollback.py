"""`memrelay rollback PIPELINE`: activate the bundle of an earlier version again."""

from typing import Annotated

import typer

from memrelay.cli.composition import fail, open_catalog, run
from memrelay.cli.deployment import deployments, print_deployed
from memrelay.cli.options import IfMatch, JsonAnyway, Pipeline, make_precondition
from memrelay.cli.pipeline import find_uid
from memrelay.cli.settings import Settings
from memrelay.pipelines.checked import BundleRefused
from memrelay.web.api.deployments import NoSuchVersion

To = Annotated[
    int | None,
    typer.Option(
        metavar="VERSION",
        min=1,
        help="The version. By default the last one with a different bundle.",
    ),
]


def rollback(
    pipeline: Pipeline, *, to: To = None, if_match: IfMatch = None, as_json: JsonAnyway = False
) -> None:
    """Activate the bundle of an earlier version, as a new version.

    Print {pipeline_uid, name, hash, version, served}. A deactivated pipeline, given by its uid,
    becomes active again. Records do not change.
    """

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            uid = await find_uid(catalog, pipeline)
        async with deployments(settings) as service:
            try:
                swapped = await service.rollback(uid, to, make_precondition(if_match))
            except NoSuchVersion as error:
                fail(f"{error}; list the versions with `memrelay versions {uid}`")
            except BundleRefused as error:
                fail(f"this version of Memrelay rejects the bundle of that version:\n{error}")
            await print_deployed(service, swapped.after)

    run(command)
