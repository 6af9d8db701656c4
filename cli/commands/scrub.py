"""`memrelay scrub [PIPELINE...]`: reads everything that is stored, and looks for damage."""

from functools import partial
from pathlib import Path

import typer

from memrelay.cli.composition import note, run
from memrelay.cli.options import Json, Pipelines
from memrelay.cli.settings import Settings
from memrelay.cli.stored import pipelines_with_stores, wanted_stores
from memrelay.cli.terminal.ending import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report
from memrelay.cli.terminal.readable import counted
from memrelay.memory.errors import MemoryFault, StoreBusy
from memrelay.memory.memory_id import path_of
from memrelay.memory.sqlite.copy import FOR_SCRUB, Inspection, copied, inspect
from memrelay.memory.sqlite.damage import note_of, noted


def scrub(pipelines: Pipelines = None, *, as_json: Json = False) -> None:
    """Read all of the stores of these pipelines, or of all: pages, checksums of records, and the
    full-text index.

    It reads copies, one after the other, so nobody waits for it; it changes nothing. Exit code 1
    where something is damaged, or
    could not be looked at, as where there is no room for the copy.
    """
    names, wrong = pipelines or [], []

    async def command(settings: Settings) -> None:
        root = settings.memory.root
        found = await pipelines_with_stores(settings, names)
        for memory_id in wanted_stores(settings, names, found):
            path = path_of(root, memory_id)
            if path.exists() or note_of(path).exists():
                try:
                    inspected = _inspect(root, memory_id)
                except StoreBusy as busy:  # that says nothing of the store
                    note(f"{memory_id} was not looked at: {busy}")
                    wrong.append(str(busy))
                    continue
                wrong.extend(inspected.faults)
                report(partial(_tell, memory_id, inspected, as_json))

    run(command)
    if wrong:
        raise typer.Exit(1)


def _inspect(root: Path, memory_id: str) -> Inspection:
    path = path_of(root, memory_id)
    if not path.exists():  # but a note on it
        return Inspection(0, 0, "", noted(path), [])
    try:
        with interruptible(), copied(path, root, FOR_SCRUB) as copy:
            found = inspect(copy)
        return (
            found if found.faults else found._replace(faults=noted(path))
        )  # which no worker opens
    except StoreBusy:
        raise
    except MemoryFault as fault:
        return Inspection(0, 0, "", [str(fault)], [])


def _tell(memory_id: str, found: Inspection, as_json: bool) -> None:
    if as_json:
        print_json({"memory_id": memory_id} | found._asdict())
        return
    unknown = f", {found.unknown} of them from before there were checksums" if found.unknown else ""
    faults = "; ".join(found.faults)
    print_line(
        f"{memory_id}: {'DAMAGED, ' + faults if faults else 'sound'}; {counted(found.records, 'record')}{unknown}"
    )
    for guid in found.guids:
        print_line(f"  {guid} is not what was written")
    if faults:
        print_line(
            "  -> stop the worker, then `memrelay restore` a backup, or `memrelay salvage` what can be read; "
            "with --force, where the store is served all the same"
        )
