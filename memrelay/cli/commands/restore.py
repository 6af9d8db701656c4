"""`memrelay restore PLACE [PIPELINE...]`: restore a backup."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from memrelay.cli.backups.object_stores import downloaded
from memrelay.cli.backups.store_files import import_system_file, put_in_journal
from memrelay.cli.composition import fail, note, run_with_settings
from memrelay.cli.options import BackedUpPipelines, Force, Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line, report_progress
from memrelay.cli.terminal.readable import counted
from memrelay.memory.transfer.backup import (
    BackedUpFile,
    Manifest,
    may_replace,
    read_manifest,
    restore_file,
    verify,
)
from memrelay.worker.ownership.host_locks import alone

Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A folder that `memrelay backup` created, or its URL. A URL without the name of a "
        "backup selects the newest.",
    ),
]


def restore(
    place: Place,
    pipelines: BackedUpPipelines = None,
    *,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Restore the stores of these pipelines, or the whole backup with its active bundles.

    No worker may serve this memory root. Replacing a working store requires --force. Replaced files
    are kept. The exit code is 1 if the backup lacks a store.
    """

    def command(settings: Settings) -> None:
        with downloaded(place, settings.memory.root) as folder:
            restore_from(settings, folder)

    def restore_from(settings: Settings, folder: Path) -> None:
        manifest = read_manifest(folder)
        files = _select_files(manifest, pipelines or [])
        root = settings.memory.root
        with alone(root):
            for file in files:
                verify(folder, file)
                may_replace(root / file.path, force)
            if settings.storage.url:
                files = _restore_control_plane(settings, folder, files, force=force)
            for file in files:
                kept = restore_file(root, folder, file, force=force)
                put_in_journal(settings, file.memory_id)
                report_progress(partial(_print_file, file, kept, as_json))
        if pipelines and not (root / "system.db").exists():
            note(
                "the stores of single pipelines are restored without their bundles; deploy these "
                "with `memrelay deploy`"
            )
        # Pipelines of the whole backup would start with empty stores.
        left_out = {} if pipelines else manifest.left_out
        for memory_id, reason in left_out.items():
            note(f"{memory_id} was not restored, because the backup lacks it: {reason}")
        if left_out:
            raise typer.Exit(1)

    run_with_settings(command)


def _restore_control_plane(
    settings: Settings, folder: Path, files: Sequence[BackedUpFile], *, force: bool
) -> list[BackedUpFile]:
    """Copy the control plane to PostgreSQL if it is among the files, and return the others."""
    for file in files:
        if not file.memory_id:
            uvloop.run(import_system_file(settings, folder / file.path, replace=force))
            print_line(f"{file.path}: restored in PostgreSQL")
    return [file for file in files if file.memory_id]


def _select_files(manifest: Manifest, names: Sequence[str]) -> list[BackedUpFile]:
    """Return the files to restore. End the command if a pipeline or its store is missing."""
    if not names:
        return manifest.files
    by_store = {file.memory_id: file for file in manifest.files}
    selected: dict[str, BackedUpFile] = {}
    for name in names:
        matching = [one for one in manifest.pipelines if name in (one.uid, one.name)]
        if len(matching) != 1:
            there = ", ".join(f"{one.name} ({one.uid})" for one in manifest.pipelines) or "none"
            fail(f"{len(matching)} pipelines of the backup are named {name!r}; it has {there}")
        for store in matching[0].stores:
            if store not in by_store:
                reason = manifest.left_out.get(store, "the backup was made without this pipeline")
                fail(f"{store} is not in the backup: {reason}")
            selected[store] = by_store[store]
    return list(selected.values())


def _print_file(file: BackedUpFile, kept: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "memory_id": file.memory_id,
                "records": file.records,
                "replaced": str(kept) if kept else None,
            }
        )
        return
    records = f", {counted(file.records, 'record')}" if file.memory_id else ""
    replaced = f"; the replaced file is {kept.name}" if kept else ""
    print_line(f"{file.path}: restored{records}{replaced}")
