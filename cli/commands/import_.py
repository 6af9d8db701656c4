"""`memrelay import PIPELINE FILE`: takes in what a pipeline remembered, through the pipeline's
owner."""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, pipeline_named, run, stored_catalog
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.files.export import UID, read_export, verify_export
from memrelay.memory.operations.records_import import MOST

ACTOR, NAME = "cli", "records.import"
# what a call holds of bus.max_message_bytes, in characters, each of which takes four bytes at most
SHARE = 5
Exported = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="What `memrelay export --records` wrote.", show_default=False
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID",
        help="Take all into this store; by default those of the same names.",
        show_default=False,
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="What is there, and is not the same, gives way.")
]
Within = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long to wait for each answer."),
]


def import_(
    pipeline: Pipeline,
    file: Exported,
    *,
    store: Store = "",
    replace: Replace = False,
    wait: Within = 60.0,
    as_json: Json = False,
) -> None:
    """Take the records of an export into a pipeline that is served, with their guids, times,
    histories and named memories.

    The file is checked first. What is there already stays, so the same again changes nothing; what
    is there and is not the same
    ends the import, and is named, unless --replace is given.
    """

    async def command(settings: Settings) -> Counter[str]:
        verify_export(file)
        async with stored_catalog(settings) as catalog:
            uid = (await pipeline_named(catalog, pipeline)).uid
        total = Counter[str](added=0, same=0, replaced=0)
        async with Requester(bus_address(settings)) as requester:
            for name, given in _calls(read_export(file), settings.bus.max_message_bytes // SHARE):
                target = store or name.replace(UID, uid)
                call = NewCall(
                    uid, NAME, orjson.dumps(given | {"replace": replace}), True, target, ACTOR
                )
                answer = await requester.call(call, wait)
                if "error" in answer:
                    fail(f"{answer['error']['detail']}. Taken in before that: {_told(total)}")
                total.update(answer["output"])
        return total

    total = run(command)
    if as_json:
        print_json(dict(total))
    else:
        print_line(_told(total))


def _told(total: Counter[str]) -> str:
    return f"{total['added']} added, {total['same']} there already, {total['replaced']} replaced"


def _calls(lines: Iterable[tuple[str, str]], most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(store, input) of each call; of so many characters at most."""
    page: list[str] = []
    size, store = 0, ""
    for name, line in lines:
        if page and (name != store or size + len(line) > most or len(page) == MOST):
            yield store, {"lines": page}
            page, size = [], 0
        store = name
        rest = (len(line) - 1) // most * most if len(line) > most else 0
        of = secrets.token_hex(8) if rest else ""  # another import may bring a long line meanwhile
        for at in range(0, rest, most):
            yield store, {"piece": line[at : at + most], "at": at, "of": of}
        if rest:
            yield store, {"lines": [line[rest:]], "at": rest, "of": of}
        else:
            page.append(line)
            size += len(line)
    if page:
        yield store, {"lines": page}
