"""`memrelay dlq ls|show|replay|drop`: the dead letters, what could not be run."""
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from bus.ingress import Ingress
from cli.composition import bus_address, fail, note, pipeline_named, run, stored_catalog
from cli.options import Json, JsonAnyway, Pipeline, known_pipelines
from cli.output import print_json, print_line
from cli.readable import counted, moment, table
from cli.settings import Settings
from memory.catalog import Catalog
from memory.dead_letters import Listed
from web.letters import NoLetter, NotReplayable, as_item, as_whole, letter_of, replay_of

PAGE = 500
Of = Annotated[str | None, typer.Argument(metavar="PIPELINE", help="Those of one pipeline; without, all.", show_default=False,
                                          autocompletion=known_pipelines)]
Id = Annotated[str, typer.Argument(metavar="ID", help="As `memrelay dlq ls` lists it.", show_default=False)]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="As `memrelay dlq ls` lists them.", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="All of the pipeline that there are now.")]


def ls(pipeline: Of = None, *, as_json: Json = False) -> None:
    """List dead letters in the order in which they came: a table on a terminal, else a JSON line each."""
    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            found = [one async for one in _every(catalog, await _uid(catalog, pipeline) if pipeline else "")]
        if as_json or not sys.stdout.isatty():
            for one in found:
                print_json(as_item(one))
        else:
            _print_table(found)

    run(command)


def show(pipeline: Pipeline, ident: Id, *, as_json: JsonAnyway = False) -> None:
    """Print a dead letter with what was said, as JSON."""
    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            try:
                letter = await letter_of(catalog, await _uid(catalog, pipeline), ident)
            except NoLetter as fault:
                fail(str(fault))
        print_json(as_whole(letter), indent=sys.stdout.isatty() and not as_json)

    run(command)


def replay(pipeline: Pipeline, idents: Ids = None, *, everything: All = False, as_json: JsonAnyway = False) -> None:
    """Run dead letters again, under their own ids and today's bundle. Each stays in the list until it has gone through."""
    _check_choice(idents, everything)

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog, Ingress(bus_address(settings)) as ingress:
            uid, refused = await _uid(catalog, pipeline), 0
            for ident in await _chosen(catalog, uid, idents):
                try:
                    await ingress.append(await replay_of(catalog, uid, ident))
                except (NoLetter, NotReplayable) as fault:
                    note(str(fault))
                    refused += 1
                else:
                    print_json({"replayed": ident, "pipeline_uid": uid})
        if refused:
            fail(f"{counted(refused, 'dead letter')} could not be replayed")

    run(command)


def drop(pipeline: Pipeline, idents: Ids = None, *, everything: All = False, as_json: JsonAnyway = False) -> None:
    """Forget dead letters, for good; a replay that has not run yet is called off with them."""
    _check_choice(idents, everything)

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            uid = await _uid(catalog, pipeline)
            chosen = await _chosen(catalog, uid, idents)
            dropped = await catalog.letters.remove(uid, chosen)
        for ident in chosen:
            if ident in dropped:
                print_json({"dropped": ident, "pipeline_uid": uid})
        if missing := [ident for ident in chosen if ident not in dropped]:
            fail("\n".join(str(NoLetter(uid, ident)) for ident in missing))

    run(command)


dlq = [ls, show, replay, drop]


def _check_choice(idents: list[str] | None, everything: bool) -> None:
    if bool(idents) == everything:
        raise typer.BadParameter("name ids, or give --all for all of the pipeline's", param_hint="ID")


async def _uid(catalog: Catalog, given: str) -> str:
    """Of a pipeline in service, or of one that is no more and has left dead letters. Ends the command where there is none."""
    if await catalog.find(given) is None and given in await catalog.letters.count():
        return given
    return (await pipeline_named(catalog, given)).uid


async def _chosen(catalog: Catalog, uid: str, idents: list[str] | None) -> list[str]:
    """The ids that are named, else all, before anything happens to them."""
    return list(dict.fromkeys(idents)) if idents else [one.id async for one in _every(catalog, uid)]


async def _every(catalog: Catalog, uid: str) -> AsyncIterator[Listed]:
    after = 0
    while page := await catalog.letters.page([uid] if uid else None, after=after, limit=PAGE):
        for one in page:
            yield one
        after = page[-1].place


def _print_table(found: list[Listed]) -> None:
    if not found:
        print_line("There are no dead letters.")
        return
    rows = [(one.pipeline, one.id, str(one.attempts), moment(one.buried_at), one.error.split("\n")[0][:100]) for one in found]
    for line in table([("PIPELINE", "ID", "ATTEMPTS", "LAST", "REASON"), *rows]):
        print_line(line)
