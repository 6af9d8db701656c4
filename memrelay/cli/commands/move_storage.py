"""`memrelay move-storage`: copy the control plane and the stores to PostgreSQL."""

from typing import Annotated

import typer
import uvloop

from memrelay.cli.backups.store_files import import_system_file, move_to_journals
from memrelay.cli.composition import fail, note, run_with_settings
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.control.system_file import NAME
from memrelay.worker.ownership.host_locks import alone

NOUNS = {
    "pipelines": "active pipeline",
    "versions": "version",
    "dead_letters": "dead letter",
    "keys": "key",
    "sessions": "session",
    "stores": "store",
}
Force = Annotated[
    bool, typer.Option("--force", help="Replace the rows that PostgreSQL has already.")
]


def move_storage(*, force: Force = False, as_json: Json = False) -> None:
    """Copy system.db (bundles, keys, sessions and dead letters) and all stores to storage.url.

    No worker may serve this memory root. PostgreSQL must have no such rows, except with --force,
    which replaces them. system.db stays, and is no longer used. The stores become local copies.
    """

    def command(settings: Settings) -> None:
        file = settings.memory.root / NAME
        if not settings.storage.url:
            fail("set storage.url or MEMRELAY_STORAGE__URL to the PostgreSQL database first")
        if not file.exists():
            fail(f"{file} does not exist: there is nothing to move")
        with alone(settings.memory.root):
            counts = uvloop.run(import_system_file(settings, file, replace=force))
            counts["stores"] = move_to_journals(settings, replace=force)
        moved = ", ".join(counted(counts[table], noun) for table, noun in NOUNS.items())
        if as_json:
            print_json(counts)
        else:
            print_line(f"moved to PostgreSQL: {moved}")
        note(f"{file} is no longer used; keep it until the new installation works")

    run_with_settings(command)
