"""The file of a store as a copy of its journal: bring it up to date, or build it again."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from memrelay.logs import get_logger
from memrelay.memory.engine.connection import make_template, translate_errors
from memrelay.memory.engine.damage import keep_log
from memrelay.memory.engine.disk import WAL_SUFFIXES, draft_file, fsync_path, make_folder
from memrelay.memory.engine.journal.patches import (
    Patch,
    Position,
    apply_patches,
    read_position,
    write_position,
)
from memrelay.memory.engine.journal.postgres import Entry, PostgresJournals
from memrelay.memory.errors import StoreBroken, StoreBusy

log = get_logger(__name__)
PART_BYTES = 4 << 20


class CopyState(NamedTuple):
    """The state of a file: its position, None without a journal, and its schema."""

    position: Position | None
    schema: int


def read_state(path: Path) -> CopyState:
    """Return the state of a file, which may have an earlier schema. Raises StoreBroken."""
    with translate_errors(str(path)), closing(_open(path)) as connection:
        return CopyState(read_position(connection), connection.pragma("user_version"))


def catch_up(
    journals: PostgresJournals, store: str, path: Path, entry: Entry, found: Position
) -> None:
    """Apply the commits that a file at the position `found` lacks, or build it again.

    A file with commits that PostgreSQL does not have is kept under another name.
    """
    if found == entry.position:
        return
    if _has_diverged(journals, store, entry, found):
        kept = path.with_name(
            f"{path.name}.diverged-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
        )
        log.error(
            "store_diverged",
            memory_id=store,
            kept=str(kept),
            remedy="PostgreSQL has lost commits of this store; docs/operations.md, PostgreSQL, "
            "says how to get them back",
        )
        _move(path, kept)
    elif found.generation == entry.generation and found.n >= entry.snapshot:
        patches = journals.patches(store, entry.generation, found.n)
        try:
            _apply(path, entry.generation, patches)
        except StoreBroken as error:
            log.warning("copy_built_again", memory_id=store, reason=str(error))
        if read_state(path).position == entry.position:
            return
    make_copy(journals, store, path, entry)


def _has_diverged(journals: PostgresJournals, store: str, entry: Entry, found: Position) -> bool:
    """Return whether a file has a commit that the journal never had."""
    if found.generation != entry.generation:
        return found.generation > entry.generation
    if found.n in (0, entry.n) or found.n > entry.n:
        return found.n > 0 and found != entry.position
    if found.n == entry.snapshot:
        return found.mark != entry.snapshot_mark
    return found.n > entry.snapshot and journals.mark_at(store, found.n) != found.mark


def make_copy(journals: PostgresJournals, store: str, path: Path, entry: Entry) -> None:
    """Make the file from the snapshot and the later commits. Raises StoreBroken."""
    make_folder(path.parent)
    with draft_file(path, "copied") as draft:
        patches = journals.patches(store, entry.generation, entry.snapshot)
        if entry.upload:
            _write(draft, journals.snapshot(store, entry))
        else:
            first = next(patches, None)
            _write(draft, [make_template(first.schema if first else entry.schema)])
            patches = _chain(first, patches)
        start = Position(entry.generation, entry.snapshot, entry.snapshot_mark)
        with translate_errors(str(draft)), closing(_open(draft)) as connection:
            write_position(connection, start)
        _apply(draft, entry.generation, patches)
        if read_state(draft).position != entry.position:
            raise StoreBusy(f"the journal of {store} changed while it was read; it is retried")
        fsync_path(draft)
        for suffix in ("", *WAL_SUFFIXES):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")
        os.rename(draft, path)
    fsync_path(path.parent)


def _chain(first: Patch | None, others: Iterator[Patch]) -> Iterator[Patch]:
    if first is not None:
        yield first
        yield from others


def _apply(path: Path, generation: int, patches: Iterable[Patch]) -> None:
    with translate_errors(str(path)), closing(_open(path)) as connection:
        apply_patches(connection, path, generation, patches)


def _write(path: Path, parts: Iterable[bytes]) -> None:
    path.touch(mode=0o600)
    with path.open("wb") as file:
        file.writelines(parts)


def _open(path: Path) -> apsw.Connection:
    """Open a file without a migration: the journal may continue with its schema."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    keep_log(connection, False)
    connection.pragma("synchronous", "NORMAL")
    connection.pragma("temp_store", "MEMORY")
    return connection


def _move(path: Path, kept: Path) -> None:
    for suffix in (*WAL_SUFFIXES, ""):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{kept}{suffix}")
    fsync_path(path.parent)


def read_parts(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file for an upload."""
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part
