"""`memrelay blocks`: the blocks that a bundle can name, with their sources."""

import sys

from memrelay.blocks.registry import ListedBlock, list_blocks
from memrelay.cli.composition import run_with_settings
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import table


def blocks(*, as_json: Json = False) -> None:
    """List all blocks with their sources: a table on a terminal, otherwise one JSON line each.

    A source is "built in", the name of a distribution, or the path of a file.
    """

    def command(_: Settings) -> None:
        listed = list_blocks()
        if as_json or not sys.stdout.isatty():
            for one in listed:
                print_json(_as_json(one))
        else:
            rows = [(one.name, one.source, one.fault or one.summary) for one in listed]
            for line in table([("NAME", "SOURCE", "SUMMARY"), *rows]):
                print_line(line)

    run_with_settings(command)


def _as_json(one: ListedBlock) -> dict[str, str]:
    known = {"name": one.name, "source": one.source, "summary": one.summary}
    return known | ({"fault": one.fault} if one.fault else {})
