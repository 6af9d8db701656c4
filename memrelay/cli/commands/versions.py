"""`memrelay versions PIPELINE`: list the versions of a pipeline."""

from memrelay.cli.composition import open_catalog, run
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import find_uid
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import moment, print_list


def versions(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """List all versions of a pipeline, the newest first.

    A table on a terminal, otherwise JSON lines. Use the uid of a deactivated pipeline.
    """

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            uid = await find_uid(catalog, pipeline)
            listed, active = await catalog.versions(uid), await catalog.serving(uid)
        items = [
            {
                "version": one.version,
                "hash": one.hash,
                "name": one.name,
                "deployed_at": one.deployed_at,
                "active": one == active,
            }
            for one in listed
        ]
        rows = [
            (
                str(one.version),
                "active" * (one == active),
                one.name,
                moment(one.deployed_at),
                one.hash[:12],
            )
            for one in listed
        ]
        heading = "VERSION", "", "NAME", "DEPLOYED", "HASH"
        print_list(items, [heading, *rows], as_json=as_json)

    run(command)
