"""`memrelay scrub [PIPELINE...]`: read all stored data and report damage."""

from functools import partial
from pathlib import Path

import typer

from memrelay.cli.composition import note, run
from memrelay.cli.options import Json, Pipelines
from memrelay.cli.pipeline import pipelines_with_stores, select_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report_progress
from memrelay.cli.terminal.readable import counted
from memrelay.memory.engine.copy import FOR_SCRUB, Inspection, inspect, temporary_copy
from memrelay.memory.engine.damage import note_of, noted
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.errors import MemoryFault, StoreBusy


def scrub(pipelines: Pipelines = None, *, as_json: Json = False) -> None:
    """Check the stores of these pipelines, or all: pages, checksums, and the full-text index.

    It reads one copy after the other, blocks no other work and changes nothing. The exit code is 1
    if a store is damaged, or was not checked, for example for lack of disk space for the copy.
    """
    names = pipelines or []
    faults: list[str] = []

    async def command(settings: Settings) -> None:
        root = settings.memory.root
        backed_up = await pipelines_with_stores(settings, names)
        for memory_id in select_stores(settings, names, backed_up):
            path = store_path(root, memory_id)
            if path.exists() or note_of(path).exists():
                faults.extend(_check_store(root, memory_id, as_json))

    run(command)
    if faults:
        raise typer.Exit(1)


def _check_store(root: Path, memory_id: str, as_json: bool) -> list[str]:
    """Inspect a store, print the result, and return its faults."""
    try:
        inspected = _inspect(root, memory_id)
    except StoreBusy as busy:
        # The store itself may be sound.
        note(f"{memory_id} was not checked: {busy}")
        return [str(busy)]
    report_progress(partial(_print_inspection, memory_id, inspected, as_json))
    return inspected.faults


def _inspect(root: Path, memory_id: str) -> Inspection:
    path = store_path(root, memory_id)
    if not path.exists():
        # Only a damage note exists.
        return Inspection(0, 0, "", noted(path), [])
    try:
        with interruptible(), temporary_copy(path, root, FOR_SCRUB) as copy:
            inspected = inspect(copy)
        # No worker opens a sound store with a damage note.
        return inspected if inspected.faults else inspected._replace(faults=noted(path))
    except StoreBusy:
        raise
    except MemoryFault as error:
        return Inspection(0, 0, "", [str(error)], [])


def _print_inspection(memory_id: str, inspected: Inspection, as_json: bool) -> None:
    if as_json:
        print_json({"memory_id": memory_id} | inspected._asdict())
        return
    condition = f"DAMAGED, {'; '.join(inspected.faults)}" if inspected.faults else "sound"
    unknown = f", {inspected.unknown} of them without a checksum" if inspected.unknown else ""
    print_line(f"{memory_id}: {condition}; {counted(inspected.records, 'record')}{unknown}")
    for guid in inspected.guids:
        print_line(f"  {guid} has changed since it was written")
    if inspected.faults:
        print_line(
            "  -> stop the worker, then `memrelay restore` a backup, or `memrelay salvage` the "
            "readable rows; use --force if a worker still serves the store"
        )
