"""`memrelay versions PIPELINE`: list the versions of a pipeline."""

import sys

from memrelay.cli.composition import open_catalog, run
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import find_uid
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table


def versions(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """List all versions of a pipeline, the newest first.

    A table on a terminal, otherwise JSON lines. Use the uid of a deactivated pipeline.
    """

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            uid = await find_uid(catalog, pipeline)
            found, active = await catalog.versions(uid), await catalog.serving(uid)
        if as_json or not sys.stdout.isatty():
            for one in found:
                print_json(
                    {
                        "version": one.version,
                        "hash": one.hash,
                        "name": one.name,
                        "deployed_at": one.deployed_at,
                        "active": one == active,
                    }
                )
            return
        rows = [
            (
                str(one.version),
                "active" * (one == active),
                one.name,
                moment(one.deployed_at),
                one.hash[:12],
            )
            for one in found
        ]
        for line in table([("VERSION", "", "NAME", "DEPLOYED", "HASH"), *rows]):
            print_line(line)

    run(command)
