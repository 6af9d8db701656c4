"""`memrelay backup [PIPELINE...] --to FOLDER`: copies what is stored, while it is used."""

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from memrelay.cli.composition import note, run
from memrelay.cli.options import Json, Pipelines
from memrelay.cli.settings import Settings
from memrelay.cli.stored import pipelines_with_stores, wanted_stores
from memrelay.cli.terminal.ending import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report
from memrelay.cli.terminal.readable import counted
from memrelay.memory.files.backup import BackedUpFile, Manifest, back_up

To = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="The folder to make; it may not be there yet.", show_default=False
    ),
]


def backup(pipelines: Pipelines = None, *, to: To, as_json: Json = False) -> None:
    """Copy the stores of these pipelines, or all there are, and system.db to a folder, while they
    are used.

    Each copy is verified; a damaged store is left out and named, with exit code 1. An interrupted
    backup leaves no folder.
    """
    names = pipelines or []

    async def command(settings: Settings) -> Manifest:
        found = await pipelines_with_stores(settings, names)
        about = Manifest(time.time_ns() // 1_000_000, version("memrelay"), found, [], {})
        with interruptible():
            return back_up(settings.memory.root, to, wanted_stores(settings, names, found), about)

    made = run(command)
    for file in made.files:
        report(partial(_tell, file, as_json))
    for memory_id, reason in made.left_out.items():
        note(f"{memory_id} is not in the backup: {reason}")
    if made.left_out:
        raise typer.Exit(1)


def _tell(file: BackedUpFile, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "memory_id": file.memory_id,
                "bytes": file.bytes,
                "records": file.records,
                "sha256": file.sha256,
            }
        )
    else:
        print_line(
            f"{file.path}: {file.bytes} bytes"
            + f", {counted(file.records, 'record')}" * bool(file.memory_id)
        )
