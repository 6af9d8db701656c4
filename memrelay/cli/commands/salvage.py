"""`memrelay salvage PIPELINE`: rebuild a damaged store from its readable rows."""

from functools import partial
from typing import Annotated

import typer

from memrelay.cli.backups.store_files import put_in_journal
from memrelay.cli.composition import fail, run
from memrelay.cli.options import Force, Json, Pipeline
from memrelay.cli.pipeline import pipelines_with_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report_progress
from memrelay.cli.terminal.readable import counted
from memrelay.memory.engine.damage import is_emptied, note_of
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.transfer.salvage import Salvaged, salvage_store
from memrelay.worker.ownership.host_locks import alone

Empty = Annotated[bool, typer.Option("--empty", help="Copy nothing: start with an empty store.")]


def salvage(
    pipeline: Pipeline, *, empty: Empty = False, force: Force = False, as_json: Json = False
) -> None:
    """Replace the damaged stores of a pipeline by new ones with all readable rows.

    No worker may serve this memory root. A store without known damage requires --force. The old
    stores are kept.
    """

    async def command(settings: Settings) -> None:
        root = settings.memory.root
        (source,) = await pipelines_with_stores(settings, [pipeline])
        paths = {name: store_path(root, name) for name in source.stores}
        damaged = {
            name: path
            for name, path in paths.items()
            if note_of(path).exists() or is_emptied(path) or (force and path.exists())
        }
        if not damaged:
            fail(f"no store of {source.name} has known damage; use --force to salvage them anyway")
        with interruptible(), alone(root):
            for memory_id, path in damaged.items():
                salvaged = salvage_store(path, empty=empty)
                put_in_journal(settings, memory_id)
                report_progress(partial(_print_salvaged, salvaged, as_json))

    run(command)


def _print_salvaged(salvaged: Salvaged, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "store": str(salvaged.path),
                "rows": salvaged.rows,
                "damaged": salvaged.guids,
                "replaced": str(salvaged.kept) if salvaged.kept else None,
                "notes": salvaged.notes,
            }
        )
        return
    replaced = f"; the replaced file is {salvaged.kept.name}" if salvaged.kept else ""
    print_line(f"{salvaged.path}: {counted(salvaged.rows['records'], 'record')}{replaced}")
    for sentence in salvaged.notes:
        print_line(f"  {sentence}")
    for guid in salvaged.guids:
        print_line(f"  {guid} has changed since it was written; check it, or delete it")
