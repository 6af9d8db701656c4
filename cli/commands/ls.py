"""`memrelay ls`: the pipelines in service."""

import sys

from memrelay.cli.composition import run, stored_catalog
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table
from memrelay.memory.control.catalog import Deployed


def ls(*, as_json: Json = False) -> None:
    """List the pipelines in service: a table on a terminal, else a JSON line each."""

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            everything = await catalog.active()
        if as_json or not sys.stdout.isatty():
            for one in everything:
                print_json(
                    {
                        "pipeline_uid": one.uid,
                        "name": one.name,
                        "hash": one.hash,
                        "version": one.version,
                        "deployed_at": one.deployed_at,
                    }
                )
        else:
            _print_table(everything)

    run(command)


def _print_table(everything: list[Deployed]) -> None:
    if not everything:
        print_line("No pipeline is in service; deploy one with `memrelay deploy FILE`.")
        return
    rows = [(one.name, one.uid, str(one.version), moment(one.deployed_at)) for one in everything]
    for line in table([("NAME", "UID", "VERSION", "DEPLOYED"), *rows]):
        print_line(line)
