"""`memrelay search PIPELINE TEXT`: search records, and with `--explain` show the ranking."""

from typing import Annotated

import typer

from memrelay.bus.request import NewCall
from memrelay.cli.composition import run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout, Store, call_operation, encode_input
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import explanation_lines, hit_lines
from memrelay.memory.operations import all_operations

MODES = ("fts", "hybrid", "semantic")
Query = Annotated[
    str, typer.Argument(metavar="TEXT", help="The query. docs/search.md describes its syntax.")
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(MODES),
        help="fts: every word as typed. hybrid: any word in any form, and the meaning. "
        "semantic: only the meaning. By default hybrid if the store has vectors, else fts.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="NUMBER", help="Maximum number of results.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Explain each score, or why nothing was found.")
]


def search(
    pipeline: Pipeline,
    query: Query,
    *,
    mode: Mode = None,
    limit: Limit = 10,
    explain: Explain = False,
    store: Store = "",
    wait: AnswerTimeout = 30.0,
    as_json: Json = False,
) -> None:
    """Search the records of a pipeline and print the best first, one line each.

    `memrelay records search` also takes filters and boosts.
    """

    async def command(settings: Settings) -> None:
        operation = all_operations()["records.search"]
        given = {"query": query, "limit": limit, "explain": explain}
        given |= {"mode": mode} if mode else {}
        data = encode_input(operation, given)
        call = NewCall("", operation.name, data, False, store, ACTOR, "")
        output = await call_operation(settings, pipeline, call, wait)
        if as_json:
            print_json(output)
            return
        for line in explanation_lines(output) if explain else hit_lines(output):
            print_line(line)

    run(command)
