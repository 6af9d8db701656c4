"""The stores of an installation as files, for programs that do not own them."""

import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from memrelay.memory.engine.as_of import skip_lost_changes
from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.engine.copy import copy_database, copy_over, inspect, inspect_system
from memrelay.memory.engine.damage import ANY, mark_damaged, note_of
from memrelay.memory.engine.disk import (
    WAL_SUFFIXES,
    draft_file,
    fsync_path,
    is_disk_full,
    make_folder,
)
from memrelay.memory.engine.memory_id import check, list_stores, store_path
from memrelay.memory.errors import BadBackup, MemoryFault, NotReplaced, StoreDamaged


class StoreFiles(Protocol):
    """The stores of an installation. Every method may raise StoreBusy and StoreBroken."""

    def exists(self, memory_id: str) -> bool:
        """Return whether a store was ever created. A damaged one counts."""

    def list(self) -> list[str]:
        """Return all stores."""

    def copy(self, memory_id: str, target: Path) -> None:
        """Copy a store to a new file while it is in use.

        Raises BadBackup: it has no usable file.
        """


class LocalFiles:
    """The files below a memory root. See StoreFiles."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, memory_id: str) -> bool:
        path = store_path(self._root, memory_id)
        return path.exists() or note_of(path).exists()

    def list(self) -> list[str]:
        return list_stores(self._root)

    def copy(self, memory_id: str, target: Path) -> None:
        source = store_path(self._root, memory_id)
        if (note := note_of(source)).exists():
            raise BadBackup(f"{source} is damaged; see {note}")
        if not source.exists():
            raise BadBackup(f"{source} does not exist: nothing was stored yet, or it was removed")
        copy_database(source, target)


# Replacing a store: the old file is kept under another name, and a crash never leaves a mixture.


def may_replace(path: Path, force: bool) -> None:
    """Raise NotReplaced if an intact store is at `path` and `force` is not set."""
    if path.exists() and not note_of(path).exists() and not force:
        raise NotReplaced(
            f"{path} exists and is not known to be damaged; use --force to replace it (the old "
            "file is kept under another name)"
        )


def replace(path: Path, draft: Path, *, keeps_past: bool = True) -> Path | None:
    """Move the store `draft`, next to `path`, to its place.

    Returns the name under which the old store is kept, None if there was none. The draft gets a new
    lineage, so that commits which only the old store had do not count as lost. Its past states stay
    readable with `keeps_past`.
    """
    now_ms = time.time_ns() // 1_000_000
    with translate_errors(str(draft)), closing(open_store_file(draft)) as connection:
        connection.execute("UPDATE commits SET lineage = ?", (secrets.token_hex(4),))
        connection.execute("DELETE FROM journal")
        skip_lost_changes(connection, now_ms, keeps_past=keeps_past)
        # Closing also checkpoints, but does not report a full disk.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fsync_path(draft)
    mark_damaged(path, "a restore or salvage was interrupted; run it again", ANY)
    kept_path = path_to_keep(path)
    for suffix in (*WAL_SUFFIXES, ""):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{kept_path}{suffix}")
    os.rename(draft, path)
    fsync_path(path.parent)
    # The note may be missing if the disk was full.
    note_of(path).unlink(missing_ok=True)
    fsync_path(path.parent)
    return kept_path if kept_path.exists() else None


def path_to_keep(path: Path) -> Path:
    """Return an unused name under which the replaced file is kept."""
    at = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return path.with_name(f"{path.name}.replaced-{at}-{secrets.token_hex(2)}")


MANIFEST, SYSTEM = "manifest.json", "system.db"
FORMAT = 1


class BackedUpPipeline(Struct, frozen=True):
    """A pipeline that was active."""

    uid: str
    name: str
    # Hash of its bundle.
    hash: str
    version: int
    stores: list[str]


class BackedUpFile(Struct, frozen=True):
    """One file, at the same relative path in the backup folder as in the memory root."""

    # "" for system.db.
    memory_id: str
    bytes: int
    sha256: str
    # Mark of its last commit, as the bus knows it.
    commit: str
    records: int

    @property
    def path(self) -> str:
        """Return the path below the folder. Raises BadMemoryId."""
        return f"{check(self.memory_id)}.db" if self.memory_id else SYSTEM


class Manifest(Struct, frozen=True):
    """The contents of a backup."""

    # Unix ms
    made_at: int
    # Version of Memrelay that made it.
    memrelay: str
    pipelines: list[BackedUpPipeline]
    files: list[BackedUpFile]
    # Stores that are not included, with the reason, by memory_id.
    left_out: dict[str, str]
    format: int = FORMAT


def back_up(
    root: Path,
    folder: Path,
    stores: Iterable[str],
    about: Manifest,
    *,
    system: Path,
    files: StoreFiles,
) -> Manifest:
    """Copy stores from `files`, and the control plane in the file `system`, to `folder`.

    The folder appears only when everything is on disk. It must not be below `root`.

    `about` holds the rest of the manifest. A damaged or missing store is left out and listed with
    the reason. Raises BadBackup if the folder exists, and OSError.
    """
    if os.path.lexists(folder):
        raise BadBackup(f"{folder} exists; choose a new folder")
    if root.resolve() in folder.resolve().parents:
        raise BadBackup(
            f"{folder} is in the memory root, where a copy counts as a store; choose a folder "
            "outside"
        )
    make_folder(folder.absolute().parent)
    draft = Path(
        tempfile.mkdtemp(dir=folder.absolute().parent, prefix=f".{folder.name}.unfinished-")
    )
    try:
        copied, left_out = [_back_up_system(system, draft)], {}
        for memory_id in stores:
            try:
                copied.append(_back_up(files, draft, memory_id))
            except MemoryFault as fault:
                left_out[memory_id] = str(fault)
        made = msgspec.structs.replace(about, files=copied, left_out=left_out)
        (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=2))
        for path in [*draft.rglob("*"), draft]:
            fsync_path(path)
        os.rename(draft, folder)
        fsync_path(folder.absolute().parent)
        return made
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _back_up(files: StoreFiles, draft: Path, memory_id: str) -> BackedUpFile:
    target = store_path(draft, memory_id)
    make_folder(target.parent)
    try:
        files.copy(memory_id, target)
        found = inspect(target)
        if found.faults:
            raise BadBackup(
                f"{memory_id} is damaged: {found.faults[0]}; run `memrelay scrub` for details"
            )
    except MemoryFault:
        # Includes its journal.
        for left in target.parent.glob(f"{target.name}*"):
            left.unlink()
        raise
    return BackedUpFile(memory_id, *measure(target), found.mark, found.records)


def _back_up_system(system: Path, draft: Path) -> BackedUpFile:
    target = draft / SYSTEM
    copy_database(system, target)
    if faults := inspect_system(target):
        raise BadBackup(f"{system} is damaged: {faults[0]}")
    return BackedUpFile("", *measure(target), "", 0)


def measure(file: Path) -> tuple[int, str]:
    """Return (size in bytes, SHA-256) of a file."""
    with file.open("rb") as content:
        return file.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a backup. Raises BadBackup."""
    try:
        manifest = msgspec.json.decode(
            _require_regular_file(folder / MANIFEST).read_bytes(), type=Manifest
        )
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBackup(
            f"{folder} is not a backup: {error}; choose a folder made by `memrelay backup`"
        ) from error
    if manifest.format != FORMAT:
        raise BadBackup(
            f"{folder} was made by a newer Memrelay ({manifest.memrelay}); restore it with that one"
        )
    if not manifest.files:
        raise BadBackup(
            f"{folder} is not a backup: {MANIFEST} lists no files; choose a folder made by "
            "`memrelay backup`"
        )
    return manifest


def _require_regular_file(file: Path) -> Path:
    """Return the path if nothing or a regular file is there. A pipe could block forever. Raises
    BadBackup.
    """
    if file.exists() and not file.is_file():
        raise BadBackup(f"{file} is not a regular file; use another backup")
    return file


def verify(folder: Path, file: BackedUpFile) -> None:
    """Check the size and SHA-256 of a file of a backup. Raises BadBackup."""
    try:
        same = measure(_require_regular_file(folder / file.path)) == (file.bytes, file.sha256)
    except OSError as error:
        raise BadBackup(f"{folder / file.path} cannot be read: {error.strerror}") from error
    if not same:
        raise BadBackup(
            f"{folder / file.path} changed after the backup: its SHA-256 differs; use another "
            "backup"
        )


def restore_file(root: Path, folder: Path, file: BackedUpFile, *, force: bool) -> Path | None:
    """Restore one verified file. Returns the name under which the replaced file is kept.

    Raises NotReplaced and BadBackup.
    """
    path = root / file.path
    make_folder(path.parent)
    with draft_file(path, "restored") as draft:
        _copy(folder / file.path, draft)
        if not file.memory_id:
            return _put_back_system(path, draft, force)
        may_replace(path, force)
        found = inspect(draft)
        if found.faults:
            raise BadBackup(
                f"{folder / file.path} is damaged: {found.faults[0]}; use another backup"
            )
        fsync_path(draft)
        return replace(path, draft)


def _copy(source: Path, target: Path) -> None:
    """Copy a file with mode 0600, as stores have.

    Raises OSError. For a full disk, it names the target.
    """
    target.touch(mode=0o600)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        # shutil names the source.
        if is_disk_full(error):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def _put_back_system(path: Path, draft: Path, force: bool) -> Path | None:
    """Replace the contents in place, because web servers have the file open. A damaged file is
    moved away.
    """
    if faults := inspect_system(draft):
        raise BadBackup(f"the backup of {path} is damaged: {faults[0]}; use another backup")
    fsync_path(draft)
    kept_path = path_to_keep(path)
    if not path.exists():
        _take_place(draft, path, kept_path)
        return None
    if not force:
        raise NotReplaced(
            f"{path} exists; use --force to replace it (the old file is kept under another name), "
            "or list the pipelines whose stores to restore"
        )
    try:
        _copy(path, kept_path)
        fsync_path(kept_path)
        copy_over(draft, path)
    except StoreDamaged:
        _take_place(draft, path, kept_path)
    # Nothing was replaced.
    except (MemoryFault, OSError):
        kept_path.unlink(missing_ok=True)
        raise
    return kept_path


def _take_place(draft: Path, path: Path, kept_path: Path) -> None:
    """Move the draft to `path` and the old journal away, because SQLite would apply it to the new
    file.
    """
    with suppress(FileNotFoundError):
        os.rename(f"{path}-journal", f"{kept_path}-journal")
    os.rename(draft, path)
    fsync_path(path.parent)
