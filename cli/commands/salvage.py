"""`memrelay salvage PIPELINE`: makes a damaged store usable, with what can still be read of it."""

from functools import partial
from typing import Annotated

import typer

from memrelay.cli.composition import fail, run
from memrelay.cli.options import Force, Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.stored import pipelines_with_stores
from memrelay.cli.terminal.ending import interruptible
from memrelay.cli.terminal.output import print_json, print_line, report
from memrelay.cli.terminal.readable import counted
from memrelay.memory.files.salvage import Salvaged, salvage_store
from memrelay.memory.memory_id import path_of
from memrelay.memory.sqlite.damage import is_emptied, note_of
from memrelay.worker.ownership.host_locks import alone

Empty = Annotated[
    bool, typer.Option("--empty", help="Take nothing over: begin with an empty store.")
]


def salvage(
    pipeline: Pipeline, *, empty: Empty = False, force: Force = False, as_json: Json = False
) -> None:
    """Make the damaged stores of a pipeline usable: new ones, with every row that can still be
    read. The old ones are kept.

    No worker may serve this memory root meanwhile. A store that was not found to be damaged is
    salvaged with --force alone.
    """

    async def command(settings: Settings) -> None:
        root = settings.memory.root
        (found,) = await pipelines_with_stores(settings, [pipeline])
        wanted = [path_of(root, name) for name in found.stores]
        damaged = [
            path
            for path in wanted
            if note_of(path).exists() or is_emptied(path) or (force and path.exists())
        ]
        if not damaged:
            fail(
                f"no store of {found.name} was found to be damaged; --force salvages them all the same"
            )
        with interruptible(), alone(root):
            for path in damaged:
                report(partial(_tell, salvage_store(path, empty=empty), as_json))

    run(command)


def _tell(salvaged: Salvaged, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "store": str(salvaged.path),
                "rows": salvaged.rows,
                "damaged": salvaged.guids,
                "replaced": str(salvaged.kept) if salvaged.kept else None,
            }
        )
        return
    kept = f"; what was there is kept as {salvaged.kept.name}" if salvaged.kept else ""
    print_line(f"{salvaged.path}: {counted(salvaged.rows['records'], 'record')}{kept}")
    for guid in salvaged.guids:
        print_line(f"  {guid} is not what was written; look at it, or delete it")
