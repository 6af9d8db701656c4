"""`memrelay rollback PIPELINE`: an earlier version's bundle in service again."""

from typing import Annotated

import typer

from memrelay.cli.composition import fail, run, stored_catalog
from memrelay.cli.deployment import deployments, tell
from memrelay.cli.options import IfMatch, JsonAnyway, Pipeline, expected_by
from memrelay.cli.pipeline import uid_of
from memrelay.cli.settings import Settings
from memrelay.pipelines.checked import BundleRefused
from memrelay.web.api.deployments import NoSuchVersion

To = Annotated[
    int | None,
    typer.Option(
        metavar="VERSION",
        min=1,
        show_default=False,
        help="That version; by default the last one with another bundle than now.",
    ),
]


def rollback(
    pipeline: Pipeline, *, to: To = None, if_match: IfMatch = None, as_json: JsonAnyway = False
) -> None:
    """Put an earlier version's bundle in service again, as a new version; prints {pipeline_uid,
    name, hash, version, served}.

    A pipeline that was taken out of service, named by its uid, is in service again. Records stay as
    they are.
    """

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            uid = await uid_of(catalog, pipeline)
        async with deployments(settings) as service:
            try:
                swapped = await service.rollback(uid, to, expected_by(if_match))
            except NoSuchVersion as error:
                fail(f"{error}; `memrelay versions {uid}` lists what there is")
            except BundleRefused as error:
                fail(f"this program does not accept the bundle of that version any more:\n{error}")
            await tell(service, swapped.after)

    run(command)
