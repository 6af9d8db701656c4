"""`memrelay dlq ls|show|replay|drop`: the dead letters, messages that failed permanently."""

import re
import sys
from asyncio import create_task, gather
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from memrelay.bus.errors import NoAnswer
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.cli.composition import bus_address, fail, find_pipeline, note, open_catalog, run
from memrelay.cli.options import Json, JsonAnyway, Pipeline, Wait, pipeline_argument
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, report_progress
from memrelay.cli.terminal.readable import counted, moment, print_list
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import Listed
from memrelay.memory.engine.models import load, models
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.dead_letter_json import (
    NoDeadLetter,
    NotReplayable,
    find_dead_letter,
    make_replay_entry,
    to_detail,
    to_item,
)

# Numbers, guids and message ids: the parts in which similar reasons differ.
NUMBERED = re.compile(r"(?<![\w-])(?:[^\W\d]|-)*+\d[\w-]*+")
PAGE = 500
# The model whose deliveries may have failed.
ENDPOINTS = "memrelay.memory.models.endpoints"
# Replays that the server syncs to disk together.
SYNC_COUNT, SYNC_BYTES = 100, 1 << 20
# Characters of a reason in a table.
MAX_REASON = 100


class ReasonGroup(NamedTuple):
    """Dead letters of one pipeline with similar reasons.

    `error` is the reason of the first one. The times are creation times in Unix ms.
    """

    pipeline: str
    error: str
    letters: int
    first_id: str
    last_id: str
    first_at: int
    last_at: int

    def to_item(self) -> dict[str, Any]:
        return {
            "pipeline_uid": self.pipeline,
            "letters": self.letters,
            "error": self.error,
            "first_id": self.first_id,
            "last_id": self.last_id,
            "first_buried_at": format_time(self.first_at),
            "last_buried_at": format_time(self.last_at),
        }

    def to_row(self) -> tuple[str, ...]:
        times = moment(self.first_at), moment(self.last_at)
        return self.pipeline, str(self.letters), *times, _short_reason(self.error)


def group_by_reason(dead_letters: Iterable[Listed]) -> list[ReasonGroup]:
    """Group dead letters by pipeline and reason, the largest group first."""
    groups: dict[tuple[str, str], ReasonGroup] = {}
    for one in dead_letters:
        key = one.pipeline, NUMBERED.sub("", one.error)
        group = groups.get(key) or ReasonGroup(
            one.pipeline, one.error, 0, one.id, one.id, one.failed_at, one.failed_at
        )
        groups[key] = group._replace(
            letters=group.letters + 1,
            last_id=one.id,
            first_at=min(group.first_at, one.failed_at),
            last_at=max(group.last_at, one.failed_at),
        )
    return sorted(groups.values(), key=lambda group: -group.letters)


OptionalPipeline = Annotated[
    str | None, pipeline_argument("Only dead letters of this pipeline. All by default.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="An id from `memrelay dlq ls`.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids from `memrelay dlq ls`.")]
All = Annotated[bool, typer.Option("--all", help="All present dead letters of the pipeline.")]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Only dead letters whose reason contains this text. Case does not matter.",
    ),
]
ByReason = Annotated[
    bool,
    typer.Option("--by-reason", help="Count dead letters per reason, ignoring numbers and ids."),
]


def ls(
    pipeline: OptionalPipeline = None,
    *,
    reason: Reason = "",
    by_reason: ByReason = False,
    as_json: Json = False,
) -> None:
    """List dead letters, the oldest first: a table on a terminal, otherwise JSON lines.

    Failed deliveries to endpoints are counted on stderr, with the commands for them.
    """

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            uid = await _find_uid(catalog, pipeline) if pipeline else ""
            listed = [one async for one in _list_dead_letters(catalog, uid, reason)]
            uids = [uid] if uid else [one.uid for one in await catalog.active()]
        nothing = "There are no dead letters."
        if by_reason:
            groups = group_by_reason(listed)
            heading = "PIPELINE", "LETTERS", "FIRST", "LAST", "REASON"
            rows = [heading, *[group.to_row() for group in groups]]
            print_list((one.to_item() for one in groups), rows, nothing, as_json=as_json)
        else:
            heading = "PIPELINE", "ID", "ATTEMPTS", "LAST", "REASON"
            rows = [heading, *map(_to_row, listed)]
            print_list(map(to_item, listed), rows, nothing, as_json=as_json)
        for uid in uids:
            _note_failed_deliveries(settings, uid)

    run(command)


def show(pipeline: Pipeline, ident: Id, *, as_json: JsonAnyway = False) -> None:
    """Print a dead letter with its message, as JSON."""

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            try:
                dead_letter = await find_dead_letter(
                    catalog, await _find_uid(catalog, pipeline), ident
                )
            except NoDeadLetter as error:
                fail(str(error))
        print_json(to_detail(dead_letter), indent=sys.stdout.isatty() and not as_json)

    run(command)


def replay(
    pipeline: Pipeline,
    idents: Ids = None,
    *,
    everything: All = False,
    reason: Reason = "",
    wait: Wait = 30.0,
    as_json: JsonAnyway = False,
) -> None:
    """Run dead letters again, with their own ids and the active bundle, and wait for the results.

    Each one stays in the list until it succeeds. The exit code is 1 if one failed again or has not
    ended after `--wait` seconds. `--wait 0` does not wait.
    """
    _check_choice(idents, everything, reason)

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog, Requester(bus_address(settings)) as requester:
            uid = await _find_uid(catalog, pipeline)
            chosen = await _choose(catalog, uid, idents, reason)
            counts, replay = Counter[str](), Replay(requester, wait)
            async for entries in _replay_batches(catalog, uid, chosen):
                counts.update(await replay.run(entries))
        faults = [
            (len(chosen) - counts.total(), "could not be replayed"),
            (counts["failed"], "failed again; `memrelay dlq show` has the reasons"),
            (counts["open"], f"not ended within {wait:g} s; `memrelay dlq ls` lists what is left"),
        ]
        if texts := [f"{counted(count, 'dead letter')} {text}" for count, text in faults if count]:
            fail("\n".join(texts))

    run(command)


def drop(
    pipeline: Pipeline,
    idents: Ids = None,
    *,
    everything: All = False,
    reason: Reason = "",
    as_json: JsonAnyway = False,
) -> None:
    """Delete dead letters permanently. This also cancels their pending replays."""
    _check_choice(idents, everything, reason)

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            uid = await _find_uid(catalog, pipeline)
            chosen = await _choose(catalog, uid, idents, reason)
            dropped = await catalog.dead_letters.remove(uid, chosen)
        for ident in chosen:
            if ident in dropped:
                report_progress(partial(print_json, {"dropped": ident, "pipeline_uid": uid}))
        if missing := [ident for ident in chosen if ident not in dropped]:
            fail("\n".join(str(NoDeadLetter(uid, ident)) for ident in missing))

    run(command)


dlq = [ls, show, replay, drop]


def _check_choice(idents: list[str] | None, everything: bool, reason: str) -> None:
    if [bool(idents), everything, bool(reason)].count(True) != 1:
        raise typer.BadParameter(
            "use exactly one of: ids, --all for the whole pipeline, or --reason",
            param_hint="ID",
        )


async def _replay_batches(
    catalog: Catalog, uid: str, idents: list[str]
) -> AsyncIterator[list[NewEntry]]:
    """Yield entries to append in batches. Note the dead letters that cannot be replayed."""
    batch, size = list[NewEntry](), 0
    for ident in idents:
        try:
            batch.append(await make_replay_entry(catalog, uid, ident))
        except (NoDeadLetter, NotReplayable) as error:
            note(str(error))
            continue
        size += len(batch[-1].data)
        if len(batch) == SYNC_COUNT or size > SYNC_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


class Replay:
    """Append entries in order and wait for their results, up to `wait_s` seconds in all batches.

    It prints a line for each, in their order: {"replayed", "pipeline_uid"}, and "error" if it
    failed again.
    """

    def __init__(self, requester: Requester, wait_s: float) -> None:
        self._requester, self._wait_s = requester, wait_s

    async def run(self, entries: list[NewEntry]) -> list[str]:
        """Return what became of each entry: "done", "failed", "open" or "appended".

        Raises the errors of `Ingress.append`.
        """
        run_one = self._say if self._wait_s else self._append
        tasks = [create_task(run_one(entry)) for entry in entries]
        outcomes = list[str]()
        try:
            for entry, task in zip(entries, tasks, strict=True):
                outcome, more = await task
                outcomes.append(outcome)
                line = {"replayed": entry.replay_of, "pipeline_uid": entry.uid, **more}
                report_progress(partial(print_json, line))
        finally:
            for task in tasks:
                task.cancel()
            await gather(*tasks, return_exceptions=True)
        if "open" in outcomes:
            self._wait_s = 0  # no worker runs, or it is too slow: append the rest
        return outcomes

    async def _append(self, entry: NewEntry) -> tuple[str, dict[str, str]]:
        await self._requester.ingress.append(entry)
        return "appended", {}

    async def _say(self, entry: NewEntry) -> tuple[str, dict[str, str]]:
        """Return what became of the entry, and the fields that its line has besides."""
        try:
            report = await self._requester.say(entry, self._wait_s)
        except NoAnswer as error:
            if not error.ident:
                raise
            return "open", {}
        errors = report.get("errors", ())
        return ("failed", {"error": errors[0]}) if errors else ("done", {})


async def _find_uid(catalog: Catalog, uid_or_name: str) -> str:
    """Return the uid of an active pipeline, or of a deactivated one with dead letters.

    End the command if there is none.
    """
    if (
        await catalog.find(uid_or_name) is None
        and uid_or_name in await catalog.dead_letters.count()
    ):
        return uid_or_name
    return (await find_pipeline(catalog, uid_or_name)).uid


async def _choose(catalog: Catalog, uid: str, idents: list[str] | None, reason: str) -> list[str]:
    """Return the given ids, or the ids of all dead letters with this reason."""
    if idents:
        return list(dict.fromkeys(idents))
    return [one.id async for one in _list_dead_letters(catalog, uid, reason)]


async def _list_dead_letters(catalog: Catalog, uid: str, reason: str) -> AsyncIterator[Listed]:
    after = 0
    while page := await catalog.dead_letters.page([uid] if uid else None, after=after, limit=PAGE):
        for one in page:
            if reason.lower() in one.error.lower():
                yield one
        after = page[-1].place


def _note_failed_deliveries(settings: Settings, uid: str) -> None:
    if ENDPOINTS not in models():
        return
    counts: dict[str, int] = load(f"{ENDPOINTS}.failed:count_failed")(settings.memory.root, uid)
    for endpoint, count in counts.items():
        deliveries = "1 delivery" if count == 1 else f"{count} deliveries"
        note(
            f"{deliveries} to the endpoint {endpoint} failed too: `memrelay deliveries list {uid} "
            f"--endpoint {endpoint} --state failed` lists them, and `memrelay endpoints recover "
            f"{uid} {endpoint}` sends them again"
        )


def _to_row(one: Listed) -> tuple[str, ...]:
    last = moment(one.failed_at)
    return one.pipeline, one.id, str(one.attempts), last, _short_reason(one.error)


def _short_reason(error: str) -> str:
    return error.split("\n")[0][:MAX_REASON]
