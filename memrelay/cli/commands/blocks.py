"""`memrelay blocks`: the blocks that a bundle can name, with their sources."""

from memrelay.blocks.registry import ListedBlock, list_blocks
from memrelay.cli.composition import run_with_settings
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import print_list


def blocks(*, as_json: Json = False) -> None:
    """List all blocks with their sources: a table on a terminal, otherwise one JSON line each.

    A source is "built in", the name of a distribution, or the path of a file.
    """

    def command(_: Settings) -> None:
        listed = list_blocks()
        rows = [(one.name, one.source, one.fault or one.summary) for one in listed]
        heading = "NAME", "SOURCE", "SUMMARY"
        print_list(map(_to_json, listed), [heading, *rows], as_json=as_json)

    run_with_settings(command)


def _to_json(one: ListedBlock) -> dict[str, str]:
    item = {"name": one.name, "source": one.source, "summary": one.summary}
    return item | ({"fault": one.fault} if one.fault else {})
