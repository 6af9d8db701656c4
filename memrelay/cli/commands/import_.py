"""`memrelay import PIPELINE FILE`: import exported records through the owner of a pipeline."""

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, find_uid, make_seal_keys, run
from memrelay.cli.foreign_import import (
    SHARE,
    ForeignImport,
    explain_undo,
    import_foreign,
    make_label,
    split_calls,
)
from memrelay.cli.operation_command import ACTOR, AnswerTimeout
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal import escaped
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.records.ids import UID
from memrelay.memory.stopped_writes import describe_stopped, read_stopped
from memrelay.memory.transfer import IMPORT
from memrelay.memory.transfer.export import read_export, verify_export
from memrelay.memory.transfer.importers.run import TARGETS, ImportReport, Options
from memrelay.memory.transfer.importers.source import (
    LeftOut,
    SourceInput,
    WrongOption,
    read_time,
)

# Faults of one reason that the report prints; --json has all.
MOST_OF_A_REASON = 10
ImportedFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="A file from `memrelay export --records`, or with --from a file of another system.",
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID",
        help="Import into this store. By default into the stores of the same names; with --from, "
        "turns and records go to the first store of the bundle.",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace existing records that differ.")]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="SYSTEM",
        help="The system that made the file, or `auto` to detect it (docs/importing.md).",
    ),
]
As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="KIND",
        help="With --from: import the items as facts, records or turns. By default as the source "
        "has them.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="With --from: print the report and samples, and store nothing."),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="DATE", help="With --from: import only items created at or after this time."
    ),
]
Owner = Annotated[str, typer.Option(metavar="NAME", help="With --from: the owner of all items.")]
Dedupe = Annotated[
    bool,
    typer.Option(
        "--dedupe", help="With --from: merge facts into similar ones, as entries.create does."
    ),
]
AllBranches = Annotated[
    bool,
    typer.Option(
        "--all-branches", help="With --from chatgpt: import all branches of a conversation."
    ),
]
Content = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="With --from csv or notes: the column or field with the texts."
    ),
]
Url = Annotated[
    str,
    typer.Option(
        metavar="URL", help="With --from redis-ams: read from this server instead of a file."
    ),
]


def import_(
    pipeline: Pipeline,
    file: ImportedFile = None,
    *,
    from_: From = "",
    as_: As = "",
    dry_run: DryRun = False,
    since: Since = "",
    owner: Owner = "",
    dedupe: Dedupe = False,
    all_branches: AllBranches = False,
    content: Content = "",
    url: Url = "",
    store: Store = "",
    replace: Replace = False,
    wait: AnswerTimeout = 60.0,
    as_json: Json = False,
) -> None:
    """Import records into a served pipeline: a Memrelay export, or a file of another system.

    The file is checked first. Identical records are skipped, so an import can be repeated. Without
    --from, a record that differs ends the import, unless --replace is given; with memory.seal_keys,
    internal values are sealed. With --from, such a record is reported and left out. The exit code
    is 1 if nothing was imported and nothing was there already.
    """
    only_foreign: dict[str, str | bool] = {
        "--as": as_,
        "--dry-run": dry_run,
        "--since": since,
        "--owner": owner,
        "--dedupe": dedupe,
        "--all-branches": all_branches,
        "--content": content,
        "--url": url,
    }
    _check_options(file, url, from_, only_foreign)
    if file is not None and not from_:
        _import_export(pipeline, file, store, wait, replace=replace, as_json=as_json)
        return
    request = ForeignImport(
        pipeline,
        source=from_,
        given=SourceInput(file, _target(as_), all_branches, content=content),
        options=Options(_time(since), owner, time.time_ns() // 1_000_000),
        store=store,
        replace=replace,
        dedupe=dedupe,
        dry_run=dry_run,
        wait_s=wait,
        url=url,
    )
    _import_foreign(request, as_json=as_json)


def _check_options(
    file: Path | None, url: str, system: str, only_foreign: dict[str, str | bool]
) -> None:
    if unused := [name for name, value in only_foreign.items() if value and not system]:
        fail(f"{unused[0]} requires --from")
    if (file is None) == (not url):
        fail("name the file to import, or with --from redis-ams use --url")
    if only_foreign["--dry-run"] and only_foreign["--dedupe"]:
        fail("--dry-run cannot know what --dedupe merges; leave out one of them")


def _target(kind: str) -> str:
    if kind and kind not in TARGETS:
        fail(f"unknown kind {kind!r} in --as; use one of {', '.join(TARGETS)}")
    return kind


def _time(since: str) -> int | None:
    try:
        return read_time(since)
    except LeftOut as error:
        fail(f"--since: {error}; write it like 2026-11-22 or 2026-11-22T05:00:00Z")


def _import_foreign(request: ForeignImport, *, as_json: bool) -> None:
    with ImportReport() as report:
        run(lambda settings: _import_or_explain(settings, request, report))
        if as_json:
            print_json(report.as_json())
        else:
            _print_report(report, dry_run=request.dry_run)
        if not report.has_imported:
            fail("nothing was imported")


async def _import_or_explain(
    settings: Settings, request: ForeignImport, report: ImportReport
) -> None:
    try:
        await import_foreign(settings, request, report)
    except WrongOption as error:
        typer.echo(escaped(f"memrelay: {error}"), err=True)
        raise typer.Exit(2) from error


def _print_report(report: ImportReport, *, dry_run: bool) -> None:
    print_line(_counts(report))
    for line in report.lines(MOST_OF_A_REASON):
        print_line(f"  {line}")
    for note in report.notes:
        print_line(note)
    if report.vanished:
        print_line("not in the file any more, but kept in the pipeline:")
    for key in report.vanished:
        print_line(f"  {key}")
    if dry_run:
        print_line("nothing was stored; samples:")
    for sample in report.samples:
        print_line(f"  {sample}")


def _counts(report: ImportReport) -> str:
    shown = [
        "read",
        "added",
        "same",
        *(one for one in ("merged", "replaced") if report.counts[one]),
    ]
    parts = [f"{name} {report.counts[name]:,}" for name in shown]
    return "   ".join((*parts, f"left out {report.counts['left_out']:,}"))


def _import_export(
    pipeline: str, file: Path, store: str, wait: float, *, replace: bool, as_json: bool
) -> None:
    async def command(settings: Settings) -> Counter[str]:
        verify_export(file)
        label = make_label(file.name)
        uid = await find_uid(settings, pipeline)
        total, keys = Counter[str](added=0, same=0, replaced=0), make_seal_keys(settings)
        # Sealed here, since a line may be sent in pieces.
        seal_line = await keys.load_line_sealer(uid)
        sealed = ((name, seal_line(line)) for name, line in read_export(file))
        async with Requester(bus_address(settings)) as requester:
            for name, lines in split_calls(sealed, settings.bus.max_message_bytes // SHARE):
                data = orjson.dumps(lines | {"replace": replace, "label": label})
                data = await keys.seal_input(uid, IMPORT, data)
                target = store or name.replace(UID, uid)
                answer = await requester.call(NewCall(uid, IMPORT, data, True, target, ACTOR), wait)
                if "error" in answer:
                    fail(f"{answer['error']['detail']}. Imported before: {_summary(total)}")
                output = answer["output"]
                if read_stopped(output) is not None:
                    typer.echo(
                        f"{len(lines.get('lines', ()))} lines: {describe_stopped(output)}", err=True
                    )
                    continue
                total.update({name: output[name] for name in total})
        if total["added"]:
            explain_undo(pipeline, label)
        return total

    total = run(command)
    if as_json:
        print_json(dict(total))
    else:
        print_line(_summary(total))


def _summary(total: Counter[str]) -> str:
    return f"{total['added']} added, {total['same']} unchanged, {total['replaced']} replaced"
