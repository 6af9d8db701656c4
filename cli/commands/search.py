"""`memrelay search PIPELINE TEXT`: finds what a pipeline remembers, and with `--explain` says
why."""

from typing import Annotated

import typer

from memrelay.bus.request import NewCall
from memrelay.cli.composition import run
from memrelay.cli.operation_command import ACTOR, Store, Within, checked, output_of
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import explanation_lines, hit_lines
from memrelay.memory.operation import all_operations

MODES = ("fts", "hybrid", "semantic")
Query = Annotated[
    str,
    typer.Argument(
        metavar="TEXT",
        help="What to find; docs/search.md says what can be typed.",
        show_default=False,
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        metavar="|".join(MODES),
        help="Every word as it is; any word in any form and what is meant; what is meant alone.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="NUMBER", help="How many at most.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Say how each came to its score, or why there is none.")
]


def search(
    pipeline: Pipeline,
    query: Query,
    *,
    mode: Mode = "fts",
    limit: Limit = 10,
    explain: Explain = False,
    store: Store = "",
    wait: Within = 30.0,
    as_json: Json = False,
) -> None:
    """Find what a pipeline remembers, best first, a line each; `memrelay records search` takes
    filters and boosts too."""

    async def command(settings: Settings) -> None:
        operation = all_operations()["records.search"]
        data = checked(
            operation, {"query": query, "mode": mode, "limit": limit, "explain": explain}
        )
        output = await output_of(
            settings, pipeline, NewCall("", operation.name, data, False, store, ACTOR, ""), wait
        )
        if as_json:
            print_json(output)
            return
        for line in explanation_lines(output) if explain else hit_lines(output["items"]):
            print_line(line)

    run(command)
