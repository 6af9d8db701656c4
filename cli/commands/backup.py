"""`memrelay backup [PIPELINE...] --to FOLDER`: copy stores and bundles while workers run."""

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from memrelay.cli.composition import note, run
from memrelay.cli.control_plane import exported_system_file
from memrelay.cli.options import Json, Pipelines
from memrelay.cli.pipeline import pipelines_with_stores, select_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report_progress
from memrelay.cli.terminal.readable import counted
from memrelay.memory.files.backup import BackedUpFile, Manifest, back_up
from memrelay.memory.files.last_backup import note_last_backup

To = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="The folder to create. It must not exist.", show_default=False
    ),
]


def backup(pipelines: Pipelines = None, *, to: To, as_json: Json = False) -> None:
    """Copy the stores of these pipelines, or all stores, and system.db to a folder.

    With storage.url, system.db is a copy of the tables in PostgreSQL.

    Workers may run. Each copy is verified. A damaged store is reported and left out, with exit
    code 1. An interrupted backup leaves no folder.
    """
    names = pipelines or []

    async def command(settings: Settings) -> Manifest:
        found = await pipelines_with_stores(settings, names)
        manifest = Manifest(time.time_ns() // 1_000_000, version("memrelay"), found, [], {})
        stores = select_stores(settings, names, found)
        async with exported_system_file(settings) as system:
            with interruptible():
                made = back_up(settings.memory.root, to, stores, manifest, system)
        if not names and not made.left_out:
            try:
                note_last_backup(settings.memory.root, made.made_at)
            except OSError as error:
                note(f"the backup is complete, but its time could not be noted: {error}")
        return made

    manifest = run(command)
    for file in manifest.files:
        report_progress(partial(_print_file, file, as_json))
    for memory_id, reason in manifest.left_out.items():
        note(f"{memory_id} is not in the backup: {reason}")
    if manifest.left_out:
        raise typer.Exit(1)


def _print_file(file: BackedUpFile, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "memory_id": file.memory_id,
                "bytes": file.bytes,
                "records": file.records,
                "sha256": file.sha256,
            }
        )
        return
    records = f", {counted(file.records, 'record')}" if file.memory_id else ""
    print_line(f"{file.path}: {file.bytes} bytes{records}")
