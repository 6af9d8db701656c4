"""`memrelay dlq ls|show|replay|drop`: the dead letters, what could not be run."""

import re
import sys
from asyncio import gather
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from memrelay.cli.composition import bus_address, fail, note, pipeline_named, run, stored_catalog
from memrelay.cli.options import Json, JsonAnyway, Pipeline, known_pipelines
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line, report
from memrelay.cli.terminal.readable import counted, moment, table
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import Listed
from memrelay.memory.timestamps import as_time
from memrelay.web.api.dead_letter_json import (
    NoLetter,
    NotReplayable,
    as_item,
    as_whole,
    letter_of,
    replay_of,
)

# Dead letters by their reasons: of a flood one sees what it was of, and how many there are.

NUMBERED = re.compile(
    r"[\w-]*\d[\w-]*"
)  # numbers, guids, ids of messages: in which reasons of one sort differ


class Gathered(NamedTuple):
    """Those of one pipeline and one sort of reason."""

    pipeline: str
    error: str  # the first one's
    letters: int
    first: str  # its id
    last: str
    first_at: int  # when they were given up, Unix ms: the earliest and the latest
    last_at: int

    def as_item(self) -> dict[str, Any]:
        """In JSON."""
        return {
            "pipeline_uid": self.pipeline,
            "letters": self.letters,
            "error": self.error,
            "first_id": self.first,
            "last_id": self.last,
            "first_buried_at": as_time(self.first_at),
            "last_buried_at": as_time(self.last_at),
        }


def gathered(letters: Iterable[Listed]) -> list[Gathered]:
    """Most letters first."""
    found: dict[tuple[str, str], Gathered] = {}
    for one in letters:
        sort = one.pipeline, NUMBERED.sub("", one.error)
        was = found.get(sort) or Gathered(
            one.pipeline, one.error, 0, one.id, one.id, one.buried_at, one.buried_at
        )
        found[sort] = was._replace(
            letters=was.letters + 1,
            last=one.id,
            first_at=min(was.first_at, one.buried_at),
            last_at=max(was.last_at, one.buried_at),
        )
    return sorted(found.values(), key=lambda one: -one.letters)


def print_gathered(found: list[Gathered]) -> None:
    """A table."""
    if not found:
        print_line("There are no dead letters.")
        return
    rows = [
        (
            one.pipeline,
            str(one.letters),
            moment(one.first_at),
            moment(one.last_at),
            one.error.split("\n")[0][:100],
        )
        for one in found
    ]
    for line in table([("PIPELINE", "LETTERS", "FIRST", "LAST", "REASON"), *rows]):
        print_line(line)


PAGE = 500
SYNCED, SYNCED_BYTES = 100, 1 << 20  # replays that the server writes to its disk together
Of = Annotated[
    str | None,
    typer.Argument(
        metavar="PIPELINE",
        help="Those of one pipeline; without, all.",
        show_default=False,
        autocompletion=known_pipelines,
    ),
]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `memrelay dlq ls` lists it.", show_default=False)
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="As `memrelay dlq ls` lists them.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="All of the pipeline that there are now.")]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Those whose reason has this in it, small and large letters alike.",
        show_default=False,
    ),
]
Together = Annotated[
    bool,
    typer.Option("--by-reason", help="How many there are of each reason, numbers and ids aside."),
]


def ls(
    pipeline: Of = None, *, reason: Reason = "", by_reason: Together = False, as_json: Json = False
) -> None:
    """List dead letters in the order in which they came: a table on a terminal, else a JSON line
    each."""

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            found = [
                one
                async for one in _every(
                    catalog, await _uid(catalog, pipeline) if pipeline else "", reason
                )
            ]
        if as_json or not sys.stdout.isatty():
            for item in (
                [one.as_item() for one in gathered(found)] if by_reason else map(as_item, found)
            ):
                print_json(item)
        elif by_reason:
            print_gathered(gathered(found))
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


def replay(
    pipeline: Pipeline,
    idents: Ids = None,
    *,
    everything: All = False,
    reason: Reason = "",
    as_json: JsonAnyway = False,
) -> None:
    """Run dead letters again, under their own ids and today's bundle. Each stays in the list until
    it has gone through."""
    _check_choice(idents, everything, reason)

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog, Ingress(bus_address(settings)) as ingress:
            uid = await _uid(catalog, pipeline)
            chosen = await _chosen(catalog, uid, idents, reason)
            left = len(chosen)
            async for entries in _replays(catalog, uid, chosen):
                left -= await _append(ingress, entries)
        if left:
            fail(f"{counted(left, 'dead letter')} could not be replayed")

    run(command)


def drop(
    pipeline: Pipeline,
    idents: Ids = None,
    *,
    everything: All = False,
    reason: Reason = "",
    as_json: JsonAnyway = False,
) -> None:
    """Forget dead letters, for good; a replay that has not run yet is called off with them."""
    _check_choice(idents, everything, reason)

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            uid = await _uid(catalog, pipeline)
            chosen = await _chosen(catalog, uid, idents, reason)
            dropped = await catalog.letters.remove(uid, chosen)
        for ident in chosen:
            if ident in dropped:
                report(partial(print_json, {"dropped": ident, "pipeline_uid": uid}))
        if missing := [ident for ident in chosen if ident not in dropped]:
            fail("\n".join(str(NoLetter(uid, ident)) for ident in missing))

    run(command)


dlq = [ls, show, replay, drop]


def _check_choice(idents: list[str] | None, everything: bool, reason: str) -> None:
    if [bool(idents), everything, bool(reason)].count(True) != 1:
        raise typer.BadParameter(
            "name ids, or give --all for all of the pipeline's, or --reason for some",
            param_hint="ID",
        )


async def _replays(catalog: Catalog, uid: str, idents: list[str]) -> AsyncIterator[list[NewEntry]]:
    """What to append, some of it at a time; why not is said of those that cannot be replayed."""
    together, size = list[NewEntry](), 0
    for ident in idents:
        try:
            together.append(await replay_of(catalog, uid, ident))
        except (NoLetter, NotReplayable) as fault:
            note(str(fault))
            continue
        size += len(together[-1].data)
        if len(together) == SYNCED or size > SYNCED_BYTES:
            yield together
            together, size = [], 0
    yield together


async def _append(ingress: Ingress, entries: list[NewEntry]) -> int:
    """All at once, in their order; says which were, and returns how many. Raises as
    `Ingress.append` does."""
    done = await gather(*map(ingress.append, entries), return_exceptions=True)
    for entry, answer in zip(entries, done, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        report(partial(print_json, {"replayed": entry.replay_of, "pipeline_uid": entry.uid}))
    return len(entries)


async def _uid(catalog: Catalog, given: str) -> str:
    """Of a pipeline in service, or of one that is no more and has left dead letters. Ends the
    command where there is none."""
    if await catalog.find(given) is None and given in await catalog.letters.count():
        return given
    return (await pipeline_named(catalog, given)).uid


async def _chosen(catalog: Catalog, uid: str, idents: list[str] | None, reason: str) -> list[str]:
    """The ids that are named, else all of that reason, before anything happens to them."""
    return (
        list(dict.fromkeys(idents))
        if idents
        else [one.id async for one in _every(catalog, uid, reason)]
    )


async def _every(catalog: Catalog, uid: str, reason: str) -> AsyncIterator[Listed]:
    after = 0
    while page := await catalog.letters.page([uid] if uid else None, after=after, limit=PAGE):
        for one in page:
            if reason.lower() in one.error.lower():
                yield one
        after = page[-1].place


def _print_table(found: list[Listed]) -> None:
    if not found:
        print_line("There are no dead letters.")
        return
    rows = [
        (
            one.pipeline,
            one.id,
            str(one.attempts),
            moment(one.buried_at),
            one.error.split("\n")[0][:100],
        )
        for one in found
    ]
    for line in table([("PIPELINE", "ID", "ATTEMPTS", "LAST", "REASON"), *rows]):
        print_line(line)
