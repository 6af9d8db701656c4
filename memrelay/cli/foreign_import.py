"""Import the files of other systems: check the file, then send its items in calls of
records.import.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any, NamedTuple, TypeVar

import orjson
from rich.console import Console
from rich.progress import Progress

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, find_uid, is_listed, note
from memrelay.cli.operation_command import ACTOR
from memrelay.cli.settings import Settings
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.stopped_writes import describe_stopped, read_stopped
from memrelay.memory.transfer import IMPORT, MAX_LINES
from memrelay.memory.transfer.importers.redis_ams_api import read_api
from memrelay.memory.transfer.importers.run import (
    ImportReport,
    Options,
    Outcome,
    Ready,
    Same,
    find_source,
    read_lines,
)
from memrelay.memory.transfer.importers.source import NOTE_KIND, Fault, Source, SourceInput

# Calls whose answers are awaited at the same time: the next one is made while one runs.
IN_FLIGHT = 2
SAMPLES = 10
SAMPLE_CHARACTERS = 160
# Notes per call of records.list.
PAGE = 100
# The built-in store of a line, "" for a store of the bundle, and whether it may replace a record.
Target = tuple[str, bool]
AnyTarget = TypeVar("AnyTarget")
COUNTS = ("added", "same", "merged", "replaced")
# Characters of a file in the name of an import.
MAX_NAME = 100


class ForeignImport(NamedTuple):
    """An import from another system."""

    pipeline: str
    # A name of a source, or `auto`.
    source: str
    given: SourceInput
    options: Options
    # The store of turns and records, "" for the first one of the bundle.
    store: str = ""
    replace: bool = False
    dedupe: bool = False
    dry_run: bool = False
    wait_s: float = 60.0
    # The address of the server to read from instead of a file, "" for none.
    url: str = ""


async def import_foreign(settings: Settings, request: ForeignImport, report: ImportReport) -> None:
    """Import a file and fill the report. With `dry_run`, nothing is stored.

    Raises BadExport and OSError before anything is stored: the file or the source is refused.
    """
    uid = await find_uid(settings, request.pipeline)
    given = request.given
    if request.url:
        private = settings.agents.private or is_listed(settings, "import", request.url, uid)
        given = given._replace(pages=read_api(request.url, private=private))
    source = find_source(request.source, given)
    _check_options(request, source)
    origins, total = _check(read_lines(source, given, request.options))
    given = given._replace(note=lambda text: report.notes.update({text: None}))
    outcomes = read_lines(source, given, request.options)
    async with Requester(bus_address(settings)) as requester:
        notes = await _list_notes(requester, uid, request, origins)
        with _progress(total) as advance:
            sender = _Sender(requester, uid, (request, map(advance, outcomes)), report)
            sender.may_replace = {key for key, is_edited in notes.items() if not is_edited}
            await sender.send_all(settings.bus.max_message_bytes // SHARE)
        if report.counts["added"] and not request.dry_run:
            explain_undo(request.pipeline, sender.label)
        if request.options.since is None:
            report.vanished = sorted(notes.keys() - sender.keys)


def _check(outcomes: Iterable[Outcome]) -> tuple[set[str], int]:
    """Return the beginnings of the keys of notes, and the number of items.

    Raises BadExport and OSError: the file is refused.
    """
    origins, total = set[str](), 0
    for outcome in outcomes:
        total += 1
        if isinstance(outcome, Ready) and outcome.prepared.origin:
            origins.add(outcome.prepared.origin)
    return origins, total


async def _list_notes(
    requester: Requester, uid: str, request: ForeignImport, origins: set[str]
) -> dict[str, bool]:
    """Return the keys of the notes of earlier imports, and whether they were edited since."""
    notes: dict[str, bool] = {}
    cursor = ""
    while origins:
        fields = {"kind": NOTE_KIND, "limit": PAGE, "cursor": cursor}
        call = NewCall(uid, "records.list", orjson.dumps(fields), False, request.store, ACTOR)
        answer = await requester.call(call, request.wait_s)
        if "error" in answer:
            fail(f"{answer['error']['detail']}; nothing was imported")
        for record in answer["output"]["items"]:
            if (record["key"] or "").startswith(tuple(origins)):
                notes[record["key"]] = record["updated_at"] != record["created_at"]
        cursor = answer["output"]["next_cursor"]
        if not cursor:
            break
    return notes


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Outcome], Outcome]]:
    """Show a progress bar on stderr if it is a terminal. Yield a function to call per item."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("importing", total=total)

        def advance(outcome: Outcome) -> Outcome:
            progress.advance(task)
            return outcome

        yield advance


def _check_options(request: ForeignImport, source: Source) -> None:
    if request.url and not source.has_url:
        fail(f"--url is for redis-ams; {source.name} reads a file")
    if request.given.all_branches and not source.has_branches:
        fail(f"--all-branches is for chatgpt; leave it out for {source.name}")


def make_label(name: str) -> str:
    """Return a name for an import, which no other import has. `name` is that of the file."""
    now = format_time(time.time_ns() // 1_000_000)
    return f"{name[:MAX_NAME]}@{now}"


def explain_undo(pipeline: str, label: str) -> None:
    """Print how to undo an import, for a person."""
    note(f"to undo this import: memrelay undo {quote(pipeline)} --import {quote(label)}")


class _Sender:
    """Sends the items and counts the answers."""

    def __init__(
        self,
        requester: Requester,
        uid: str,
        work: tuple[ForeignImport, Iterator[Outcome]],
        report: ImportReport,
    ) -> None:
        self._requester, self._uid, self._report = requester, uid, report
        self._request, self._outcomes = work
        path = self._request.given.path
        self.label = make_label(self._request.url if path is None else path.name)
        # Positions of the lines that no call has yet, "" for a line that is no item.
        self._positions: deque[str] = deque()
        self._running: deque[tuple[asyncio.Task[Any], list[str]]] = deque()
        self._setups: set[str] = set()
        # The keys of all notes of the file, and of those that replace what the store has.
        self.keys: set[str] = set()
        self.may_replace: set[str] = set()

    async def send_all(self, max_characters: int) -> None:
        """Send all items. End the command if a call fails."""
        try:
            for (store, replace), fields in split_calls(self._lines(), max_characters):
                positions = [self._positions.popleft() for _ in fields.get("lines", ())]
                self._running.append(
                    (asyncio.create_task(self._call(store, replace, fields)), positions)
                )
                # The task sends its call here, before the next one is made.
                await asyncio.sleep(0)
                if len(self._running) >= IN_FLIGHT:
                    await self._finish_one()
            while self._running:
                await self._finish_one()
        finally:
            for task, _ in self._running:
                task.cancel()

    def _lines(self) -> Iterator[tuple[Target, str]]:
        """Yield (target, line) of each item, and before it what must exist."""
        report = self._report
        for one in self._outcomes:
            report.counts["read"] += 1
            if isinstance(one, Fault):
                report.leave_out(one.position, one.reason)
            elif isinstance(one, Same):
                report.counts["same"] += 1
            else:
                yield from self._make_lines(one)

    def _make_lines(self, item: Ready) -> Iterator[tuple[Target, str]]:
        prepared = item.prepared
        if self._request.dry_run and len(self._report.samples) < SAMPLES:
            self._report.samples.append(prepared.sample[:SAMPLE_CHARACTERS])
        replace = self._request.replace or prepared.key in self.may_replace
        if prepared.key:
            self.keys.add(prepared.key)
        if prepared.setup and prepared.setup not in self._setups:
            self._setups.add(prepared.setup)
            self._positions.append("")
            yield (prepared.store, replace), prepared.setup
        self._positions.append(item.position)
        yield (prepared.store, replace), prepared.line

    async def _call(self, built_in: str, replace: bool, fields: dict[str, Any]) -> Any:
        request = self._request
        flags = {"skip_conflicts": True, "replace": replace}
        flags |= {"merge_entries": request.dedupe, "check_only": request.dry_run}
        store = built_in_store(self._uid, built_in) if built_in else request.store
        data = orjson.dumps(fields | flags | {"label": self.label})
        call = NewCall(self._uid, IMPORT, data, True, store, ACTOR)
        return await self._requester.call(call, request.wait_s)

    async def _finish_one(self) -> None:
        task, positions = self._running.popleft()
        answer, counts = await task, self._report.counts
        if "error" in answer:
            fail(
                f"{answer['error']['detail']}. Imported before: {counts['added']:,}; run the "
                "command again to import the rest"
            )
        output = answer["output"]
        if read_stopped(output) is not None:
            for position in filter(None, positions):
                self._report.leave_out(position, describe_stopped(output))
            return
        for name in COUNTS:
            counts[name] += output[name]
        for skipped in output["skipped"]:
            reason = skipped["reason"]
            if not skipped["policy"]:
                reason = f"{reason}; --replace would replace it"
            self._report.leave_out(positions[skipped["at"]], reason)


# A call holds this fraction of bus.max_message_bytes in characters of at most four bytes.
SHARE = 5


def split_calls(
    lines: Iterable[tuple[AnyTarget, str]], max_characters: int
) -> Iterator[tuple[AnyTarget, dict[str, Any]]]:
    """Yield (target, input) per call, for lines with their targets.

    A line that is too long for one call is sent in pieces.
    """
    page: list[str] = []
    size = 0
    target: AnyTarget | None = None
    for one, line in lines:
        is_full = size + len(line) > max_characters or len(page) == MAX_LINES
        if page and target is not None and (one != target or is_full):
            yield target, {"lines": page}
            page, size = [], 0
        target = one
        if len(line) <= max_characters:
            page.append(line)
            size += len(line)
            continue
        # The token keeps the pieces of concurrent imports separate.
        rest, token = (len(line) - 1) // max_characters * max_characters, secrets.token_hex(8)
        for at in range(0, rest, max_characters):
            yield one, {"piece": line[at : at + max_characters], "at": at, "of": token}
        yield one, {"lines": [line[rest:]], "at": rest, "of": token}
    if page and target is not None:
        yield target, {"lines": page}
