"""`memrelay backup [PIPELINE...] --to PLACE`: copy stores and bundles while workers run."""

import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from memrelay.cli.backups.object_stores import (
    delete_surplus,
    draft_folder,
    is_url,
    open_backups,
    parse_keep,
    parse_period,
    repeat,
)
from memrelay.cli.backups.store_files import exported_system_file, open_store_files
from memrelay.cli.composition import fail, note, run_with_settings
from memrelay.cli.options import Json, Pipelines
from memrelay.cli.pipeline import pipelines_with_stores, select_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report_progress
from memrelay.cli.terminal.readable import counted
from memrelay.memory.transfer.backup import BackedUpFile, Manifest, back_up
from memrelay.memory.transfer.backup_times import note_last_backup

To = Annotated[
    str,
    typer.Option(
        metavar="PLACE", help="A folder to create, or s3://, gs://, az:// or file:// with a prefix."
    ),
]
Every = Annotated[
    str, typer.Option(metavar="TIME", help="Repeat after 15m, 6h or 1d. Only with a URL.")
]
Keep = Annotated[
    str,
    typer.Option(
        metavar="TIMES",
        help="Keep the newest backup of so many days and weeks (7d,4w), and delete others. Only "
        "with a URL.",
    ),
]


def backup(
    pipelines: Pipelines = None,
    *,
    to: To,
    every: Every = "",
    keep: Keep = "",
    as_json: Json = False,
) -> None:
    """Copy the stores of these pipelines, or all stores, and system.db to a folder or a URL.

    Workers may run. Each copy is verified. A damaged store is reported and left out, with exit
    code 1. An interrupted backup is none. With storage.url, system.db is a copy of the tables in
    PostgreSQL.
    """
    names = pipelines or []
    if not is_url(to) and (every or keep):
        fail("--every and --keep need a URL in --to, such as file:///var/backups/memrelay")

    def command(settings: Settings) -> Manifest:
        if not is_url(to):
            made = _back_up(settings, names, Path(to), as_json)
            return _note_time(settings, names, made)
        kept, period_s = parse_keep(keep) if keep else None, parse_period(every) if every else 0
        backups = open_backups(to)

        def make() -> Manifest:
            with draft_folder(settings.memory.root) as folder, interruptible():
                made = _back_up(settings, names, folder, as_json)
                place = f"{to.rstrip('/')}/{backups.upload(folder)}"
            print_json({"backup": place}) if as_json else print_line(place)
            delete_surplus(backups, kept)
            return _note_time(settings, names, made)

        if period_s:
            repeat(period_s, make)
        return make()

    if run_with_settings(command).left_out:
        raise typer.Exit(1)


def _back_up(settings: Settings, names: list[str], folder: Path, as_json: bool) -> Manifest:
    """Make a backup in a folder, and print its files."""
    made = uvloop.run(_make(settings, names, folder))
    for file in made.files:
        report_progress(partial(_print_file, file, as_json))
    for memory_id, reason in made.left_out.items():
        note(f"{memory_id} is not in the backup: {reason}")
    return made


def _note_time(settings: Settings, names: list[str], made: Manifest) -> Manifest:
    """Note the time of a complete backup for monitoring, and return the backup."""
    if not names and not made.left_out:
        try:
            note_last_backup(settings.memory.root, made.made_at)
        except OSError as error:
            note(f"the backup is complete, but its time could not be noted: {error}")
    return made


async def _make(settings: Settings, names: list[str], folder: Path) -> Manifest:
    pipelines = await pipelines_with_stores(settings, names)
    manifest = Manifest(time.time_ns() // 1_000_000, version("memrelay"), pipelines, [], {})
    stores = select_stores(settings, names, pipelines)
    async with exported_system_file(settings) as system:
        with interruptible(), open_store_files(settings) as files:
            return back_up(
                settings.memory.root,
                folder,
                stores,
                manifest,
                system=system,
                files=files,
            )


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
