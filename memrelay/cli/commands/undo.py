"""`memrelay undo PIPELINE`: undo the changes of one writer, import, turn or period, in all of its
stores.

A command that was interrupted can be repeated: what is undone already stays so.
"""

import time
from shlex import quote
from typing import Annotated, Any

import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.bus.streams.via import Via
from memrelay.cli.backups.store_files import existing_stores
from memrelay.cli.composition import bus_address, fail, note, run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout, encode_input, send_call
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import pipelines_with_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.engine.origins import IMPORT, TURN, UNDO
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.provenance.undo import NAME
from memrelay.memory.operations import all_operations

# Conflicts that are printed. --json prints all.
SHOWN = 20
Key = Annotated[
    str, typer.Option("--by", metavar="KEY", help="Changes with this API key, by its id.")
]
Source = Annotated[
    str, typer.Option(metavar="NAME", help="Changes of this agent, program or sender.")
]
Import = Annotated[
    str, typer.Option("--import", metavar="LABEL", help="Changes of the import with this label.")
]
Turn = Annotated[
    str, typer.Option(metavar="ID", help="Changes of this turn, as records.origin shows it.")
]
Undo = Annotated[str, typer.Option("--undo", metavar="LABEL", help="Changes of an earlier undo.")]
Since = Annotated[str, typer.Option(metavar="TIME", help="Only changes after this time.")]
Until = Annotated[str, typer.Option(metavar="TIME", help="Only changes up to this time.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be undone, and change nothing.")
]
Store = Annotated[
    str, typer.Option(metavar="MEMORY_ID", help="A store of the pipeline. All by default.")
]


def undo(
    pipeline: Pipeline,
    *,
    by: Key = "",
    source: Source = "",
    import_: Import = "",
    turn: Turn = "",
    undo_: Undo = "",
    since: Since = "",
    until: Until = "",
    dry_run: DryRun = False,
    store: Store = "",
    wait: AnswerTimeout = 60.0,
    as_json: Json = False,
) -> None:
    """Undo the changes of one writer, import, turn or period: bring records back to their state
    before.

    Records that another writer has changed since are listed and stay as they are. An undo can be
    undone with --undo and the label that it prints.
    """
    ways = [
        f"{prefix}{value}"
        for prefix, value in ((IMPORT, import_), (TURN, turn), (UNDO, undo_))
        if value
    ]
    if len(ways) > 1:
        fail("give only one of --import, --turn and --undo")
    now = format_time(time.time_ns() // 1_000_000)
    given: dict[str, Any] = {"key": by, "source": source, "since": since, "until": until}
    given |= {"way_in": "".join(ways), "label": now, "dry_run": dry_run}
    chosen = {name: value for name, value in given.items() if value}
    if not chosen.keys() - {"label", "dry_run"}:
        fail("choose what to undo: --by, --source, --import, --turn, --undo, --since or --until")
    if since:
        # Changes that arrive while the steps run are not undone.
        chosen.setdefault("until", now)
    report = run(lambda settings: _undo(settings, pipeline, store, chosen, wait))
    if as_json:
        print_json(report | {"label": now})
    else:
        _print_report(report, dry_run=dry_run)
        if not dry_run and (report["deleted"] or report["restored"]):
            note(f"to undo this: memrelay undo {quote(pipeline)} --undo {now}")


async def _undo(
    settings: Settings, pipeline: str, store: str, given: dict[str, Any], wait_s: float
) -> dict[str, Any]:
    """Return the sums of all steps in all stores."""
    (source,) = await pipelines_with_stores(settings, [pipeline])
    stores = [store] if store else existing_stores(settings, source.stores)
    report: dict[str, Any] = {"deleted": 0, "restored": 0, "conflicts": []}
    async with Requester(bus_address(settings)) as requester:
        for name in stores:
            cursor: str | None = ""
            while cursor is not None:
                data = encode_input(all_operations()[NAME], given | {"cursor": cursor})
                call = NewCall(source.uid, NAME, data, True, name, ACTOR, via=Via("cli"))
                step = await send_call(requester, call, wait_s)
                report["deleted"] += step["deleted"]
                report["restored"] += step["restored"]
                report["conflicts"] += [one | {"store": name} for one in step["conflicts"]]
                cursor = step["next_cursor"]
    return report


def _print_report(report: dict[str, Any], *, dry_run: bool) -> None:
    deleted = counted(report["deleted"], "new record")
    restored = counted(report["restored"], "record")
    verb = "would delete" if dry_run else "deleted"
    print_line(f"{verb} {deleted}, and {'bring' if dry_run else 'brought'} back {restored}")
    conflicts = report["conflicts"]
    if conflicts:
        print_line(f"{counted(len(conflicts), 'record')} left as they are:")
    for one in conflicts[:SHOWN]:
        print_line(f"  {one['guid']}  {one['reason']} ({one['actor'] or 'unknown'})")
    if len(conflicts) > SHOWN:
        print_line(f"  and {len(conflicts) - SHOWN:,} more; --json lists all")
