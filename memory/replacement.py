"""Puts a store in the place of another: what it replaces is kept under another name, and a crash
leaves no mixture of both."""

import os
import secrets
import time
from contextlib import closing, suppress
from pathlib import Path

from memory.drafts import LOGS
from memory.errors import NotReplaced
from memory.on_disk import sync_folder
from memory.sqlite.connection import open_store_file, translated
from memory.sqlite.damage import ANY, condemn, note_of


def may_replace(path: Path, force: bool) -> None:
    """Raises NotReplaced where a store stands at `path` that was not found to be damaged, unless
    that is wanted."""
    if path.exists() and not note_of(path).exists() and not force:
        raise NotReplaced(
            f"{path} is there, and was not found to be damaged; with --force it is replaced, and kept under "
            "another name"
        )


def replace(path: Path, draft: Path) -> Path | None:
    """Moves the store `draft`, beside `path`, to its place. Returns the name under which the old
    one is kept, None for none.

    The draft gets a lineage of its own: commits that the old one had, and this one lacks, are given
    up knowingly.
    """
    with translated(str(draft)), closing(open_store_file(draft)) as connection:
        connection.execute("UPDATE commits SET lineage = ?", (secrets.token_hex(4),))
        connection.execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        )  # closing does it too, and says nothing where there is no room
    sync_folder(draft)
    condemn(path, "a restore or a salvage of it was interrupted; begin it again", ANY)
    aside = aside_of(path)
    for suffix in (*LOGS, ""):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    os.rename(draft, path)
    sync_folder(path.parent)
    note_of(path).unlink(missing_ok=True)  # there may have been no room for it
    sync_folder(path.parent)
    return aside if aside.exists() else None


def aside_of(path: Path) -> Path:
    """The name, which nothing has, under which what is replaced at `path` is kept."""
    return path.with_name(
        f"{path.name}.replaced-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    )
