"""`memrelay versions PIPELINE`: what a pipeline was, version by version."""

import sys

from memrelay.cli.composition import run, stored_catalog
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import uid_of
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table


def versions(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """List every version that a pipeline had, the newest first: a table on a terminal, else a JSON
    line each.

    A pipeline that was taken out of service is named by its uid.
    """

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            uid = await uid_of(catalog, pipeline)
            everything, active = await catalog.versions(uid), await catalog.serving(uid)
        if as_json or not sys.stdout.isatty():
            for one in everything:
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
            for one in everything
        ]
        for line in table([("VERSION", "", "NAME", "DEPLOYED", "HASH"), *rows]):
            print_line(line)

    run(command)
