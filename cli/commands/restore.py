"""`memrelay restore FOLDER [PIPELINE...]`: puts a backup back in place."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from memrelay.cli.composition import fail, note, settled
from memrelay.cli.options import Force, Json, Named
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line, report
from memrelay.cli.terminal.readable import counted
from memrelay.memory.files.backup import (
    BackedUpFile,
    Manifest,
    may_replace,
    put_back,
    read_manifest,
    verify,
)
from memrelay.worker.ownership.host_locks import alone

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A folder that `memrelay backup` made.", show_default=False
    ),
]


def restore(
    folder: Folder, pipelines: Named = None, *, force: Force = False, as_json: Json = False
) -> None:
    """Put the stores of these pipelines back, by uid or name, or everything with the bundles in
    service.

    No worker may serve this memory root meanwhile. A store that works is replaced with --force
    alone; what is replaced is kept.
    Exit code 1 where the backup was made without a store.
    """

    def command(settings: Settings) -> None:
        manifest = read_manifest(folder)
        files = _wanted(manifest, pipelines or [])
        root = settings.memory.root
        with alone(root):
            for file in files:
                verify(folder, file)
                may_replace(root / file.path, force)
            for file in files:
                kept = put_back(root, folder, file, force=force)
                report(partial(_tell, file, kept, as_json))
        if pipelines and not (root / "system.db").exists():
            note(
                "bundles are not restored with the stores of single pipelines; deploy them with `memrelay deploy`"
            )
        if not pipelines:
            _tell_left_out(manifest.left_out)

    settled(command)


def _wanted(manifest: Manifest, names: Sequence[str]) -> list[BackedUpFile]:
    """The files to put back. Ends the command where the backup has no such pipeline, or not its
    store."""
    if not names:
        return manifest.files
    by_store = {file.memory_id: file for file in manifest.files}
    wanted: dict[str, BackedUpFile] = {}
    for name in names:
        found = [one for one in manifest.pipelines if name in (one.uid, one.name)]
        if len(found) != 1:
            there = ", ".join(f"{one.name} ({one.uid})" for one in manifest.pipelines) or "none"
            fail(f"{len(found)} pipelines of the backup are called {name!r}; it has {there}")
        for store in found[0].stores:
            if store not in by_store:
                fail(
                    f"{store} is not in the backup: {manifest.left_out.get(store, 'it was not asked for')}"
                )
            wanted[store] = by_store[store]
    return list(wanted.values())


def _tell_left_out(left_out: dict[str, str]) -> None:
    """Their pipelines come back without them, and would begin with empty ones. Ends the command
    where there are any."""
    for memory_id, reason in left_out.items():
        note(f"{memory_id} was not restored, since it is not in the backup: {reason}")
    if left_out:
        raise typer.Exit(1)


def _tell(file: BackedUpFile, kept: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "memory_id": file.memory_id,
                "records": file.records,
                "replaced": str(kept) if kept else None,
            }
        )
    else:
        records = f", {counted(file.records, 'record')}" if file.memory_id else ""
        print_line(
            f"{file.path}: restored{records}"
            + (f"; what was there is kept as {kept.name}" if kept else "")
        )
