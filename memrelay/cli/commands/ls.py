"""`memrelay ls`: list the active pipelines."""

import sys

from memrelay.cli.composition import open_catalog, run
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table
from memrelay.memory.control.catalog import Deployed


def ls(*, as_json: Json = False) -> None:
    """List the active pipelines: a table on a terminal, otherwise JSON lines."""

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            active = await catalog.active()
        if not as_json and sys.stdout.isatty():
            _print_table(active)
            return
        for one in active:
            print_json(
                {
                    "pipeline_uid": one.uid,
                    "name": one.name,
                    "hash": one.hash,
                    "version": one.version,
                    "deployed_at": one.deployed_at,
                }
            )

    run(command)


def _print_table(active: list[Deployed]) -> None:
    if not active:
        print_line("No pipeline is active; deploy one with `memrelay deploy FILE`.")
        return
    rows = [(one.name, one.uid, str(one.version), moment(one.deployed_at)) for one in active]
    for line in table([("NAME", "UID", "VERSION", "DEPLOYED"), *rows]):
        print_line(line)
