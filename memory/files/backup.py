"""Backups: copies of stores and of the control plane in a folder, taken while they are used and
verified before they count."""

import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from memrelay.memory.disk import LOGS, drafted, is_disk_full, make_folder, sync_folder
from memrelay.memory.errors import BadBackup, MemoryFault, NotReplaced, StoreDamaged
from memrelay.memory.memory_id import check, path_of
from memrelay.memory.sqlite.connection import open_store_file, translated
from memrelay.memory.sqlite.copy import copy_database, copy_over, inspect, inspect_system
from memrelay.memory.sqlite.damage import ANY, condemn, note_of

# Puts a store in the place of another: what it replaces is kept under another name, and a crash
# leaves no mixture of both.


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


MANIFEST, SYSTEM = "manifest.json", "system.db"
FORMAT = 1


class BackedUpPipeline(Struct, frozen=True):
    """A pipeline that was in service."""

    uid: str
    name: str
    hash: str  # of its bundle
    version: int
    stores: list[str]


class BackedUpFile(Struct, frozen=True):
    """One file, at its place below the folder as below a memory root."""

    memory_id: str  # "" for system.db
    bytes: int
    sha256: str
    commit: str  # its last, as the bus is told
    records: int

    @property
    def path(self) -> str:
        """Below the folder. Raises BadMemoryId."""
        return f"{check(self.memory_id)}.db" if self.memory_id else SYSTEM


class Manifest(Struct, frozen=True):
    """What a backup holds."""

    made_at: int  # Unix ms
    memrelay: str  # the version that made it
    pipelines: list[BackedUpPipeline]
    files: list[BackedUpFile]
    left_out: dict[str, str]  # memory_id -> why the store is not in it
    format: int = FORMAT


def back_up(root: Path, folder: Path, stores: Iterable[str], about: Manifest) -> Manifest:
    """Copies these stores and the control plane to `folder`, which is there when all of it is on
    disk, or not at all.

    `about` has the rest of the manifest. A store that is damaged or gone is left out, and named.
    Raises BadBackup where the
    folder is there already, and OSError.
    """
    if os.path.lexists(folder):
        raise BadBackup(f"{folder} is there already; name a folder that is not")
    if root.resolve() in folder.resolve().parents:
        raise BadBackup(
            f"{folder} is in the memory root, where a copy counts as a store; name a folder outside of it"
        )
    make_folder(folder.absolute().parent)
    draft = Path(
        tempfile.mkdtemp(dir=folder.absolute().parent, prefix=f".{folder.name}.unfinished-")
    )
    try:
        files, left_out = [_back_up_system(root, draft)], {}
        for memory_id in stores:
            try:
                files.append(_back_up(root, draft, memory_id))
            except MemoryFault as fault:
                left_out[memory_id] = str(fault)
        made = msgspec.structs.replace(about, files=files, left_out=left_out)
        (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=2))
        _sync_all(draft)
        os.rename(draft, folder)
        sync_folder(folder.absolute().parent)
        return made
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _back_up(root: Path, draft: Path, memory_id: str) -> BackedUpFile:
    source, target = path_of(root, memory_id), path_of(draft, memory_id)
    if (note := note_of(source)).exists():
        raise BadBackup(f"{source} is damaged; {note} says how")
    if not source.exists():
        raise BadBackup(f"{source} is not there: nothing was stored yet, or it was removed")
    make_folder(target.parent)
    try:
        copy_database(source, target)
        found = inspect(target)
        if found.faults:
            raise BadBackup(f"{source} is damaged: {found.faults[0]}; `memrelay scrub` tells more")
    except MemoryFault:
        for left in target.parent.glob(f"{target.name}*"):  # its journal, too
            left.unlink()
        raise
    return BackedUpFile(memory_id, *measure(target), found.mark, found.records)


def _back_up_system(root: Path, draft: Path) -> BackedUpFile:
    target = draft / SYSTEM
    copy_database(root / SYSTEM, target)
    if faults := inspect_system(target):
        raise BadBackup(f"{root / SYSTEM} is damaged: {faults[0]}")
    return BackedUpFile("", *measure(target), "", 0)


def measure(file: Path) -> tuple[int, str]:
    """(bytes, SHA-256) of a file."""
    with file.open("rb") as content:
        return file.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest()


def _sync_all(folder: Path) -> None:
    """Every file and folder of it is on disk."""
    for path in [*folder.rglob("*"), folder]:
        sync_folder(path)


def read_manifest(folder: Path) -> Manifest:
    """What a backup holds. Raises BadBackup."""
    try:
        manifest = msgspec.json.decode(_plain(folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBackup(
            f"{folder} is no backup: {error}; name a folder that `memrelay backup` made"
        ) from error
    if manifest.format != FORMAT:
        raise BadBackup(
            f"{folder} was made by a newer Memrelay ({manifest.memrelay}); restore it with that one"
        )
    if not manifest.files:
        raise BadBackup(
            f"{folder} is no backup: {MANIFEST} names no file; name a folder that `memrelay backup` made"
        )
    return manifest


def _plain(file: Path) -> Path:
    """What it leads to is read to its end: a pipe would never come to one. Raises BadBackup."""
    if file.exists() and not file.is_file():
        raise BadBackup(f"{file} is no file; take another backup")
    return file


def verify(folder: Path, file: BackedUpFile) -> None:
    """That a file of a backup is still what it was. Raises BadBackup."""
    try:
        same = measure(_plain(folder / file.path)) == (file.bytes, file.sha256)
    except OSError as error:
        raise BadBackup(f"{folder / file.path} cannot be read: {error.strerror}") from error
    if not same:
        raise BadBackup(
            f"{folder / file.path} is not what was backed up: its SHA-256 is another; take another backup"
        )


def put_back(root: Path, folder: Path, file: BackedUpFile, *, force: bool) -> Path | None:
    """Restores one verified file. Returns the name under which what it replaced is kept. Raises
    NotReplaced and BadBackup."""
    path = root / file.path
    make_folder(path.parent)
    with drafted(path, "restored") as draft:
        _copy(folder / file.path, draft)
        if not file.memory_id:
            return _put_back_system(path, draft, force)
        may_replace(path, force)
        found = inspect(draft)
        if found.faults:
            raise BadBackup(
                f"{folder / file.path} is damaged: {found.faults[0]}; take another backup"
            )
        sync_folder(draft)
        return replace(path, draft)


def _copy(source: Path, target: Path) -> None:
    """For this user's eyes alone, as stores are made. Raises OSError, of the disk that is full
    where one is."""
    target.touch(mode=0o600)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        if is_disk_full(error):  # which is told of the source
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def _put_back_system(path: Path, draft: Path, force: bool) -> Path | None:
    """In place, since web servers have it open; what is damaged gives its place up."""
    if faults := inspect_system(draft):
        raise BadBackup(f"the backup of {path} is damaged: {faults[0]}; take another backup")
    sync_folder(draft)
    aside = aside_of(path)
    if not path.exists():
        _take_place(draft, path, aside)
        return None
    if not force:
        raise NotReplaced(
            f"{path} is there; with --force it is replaced, and kept under another name, or name the pipelines "
            "whose stores are to be restored"
        )
    try:
        _copy(path, aside)
        sync_folder(aside)
        copy_over(draft, path)
    except StoreDamaged:
        _take_place(draft, path, aside)
    except (MemoryFault, OSError):  # nothing was replaced
        aside.unlink(missing_ok=True)
        raise
    return aside


def _take_place(draft: Path, path: Path, aside: Path) -> None:
    """Without the journal of what was there, which SQLite would undo changes by."""
    with suppress(FileNotFoundError):
        os.rename(f"{path}-journal", f"{aside}-journal")
    os.rename(draft, path)
    sync_folder(path.parent)
