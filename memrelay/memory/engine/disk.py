"""Write files and folders atomically and durably, so that they survive a crash or
a power failure.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args


@contextmanager
def write_whole_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes `path` when the block ends.

    A crash leaves no partial file at `path`. An existing file there is not overwritten.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    os.close(descriptor)
    try:
        yield Path(draft)
        # Another process created the file first.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    fsync_path(path.parent)


def make_folder(folder: Path) -> None:
    """Create a private folder and its missing parents, and sync each of them to disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    fsync_path(folder.parent)


def fsync_path(folder: Path) -> None:
    """Flush a file or folder to disk, so that entries created, renamed or removed in a folder
    persist.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Drafts: temporary files that replace a store or system.db once they are complete.

DraftReason = Literal["restored", "salvaged", "copied"]
# Suffixes of the files that SQLite keeps next to a database.
WAL_SUFFIXES = ("-wal", "-shm")


@contextmanager
def draft_file(path: Path, way: DraftReason) -> Iterator[Path]:
    """Yield a temporary path next to `path` for the file that will replace it.

    The draft and its SQLite logs are removed before and after the block. SQLite would otherwise
    apply the log of an interrupted draft to the new one.
    """
    draft = _draft_path(path, way)
    _remove_with_logs(draft)
    try:
        yield draft
    finally:
        _remove_with_logs(draft)


def clear_drafts(path: Path) -> None:
    """Remove drafts of `path` left by killed programs.

    The caller must prevent others from drafting at the same time.
    """
    for way in get_args(DraftReason):
        _remove_with_logs(_draft_path(path, way))


def _draft_path(path: Path, way: DraftReason) -> Path:
    return path.with_name(f".{path.name}.{way}")


def _remove_with_logs(draft: Path) -> None:
    for suffix in ("", *WAL_SUFFIXES, "-journal"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)


# File identity: an open program keeps using its file after another takes the path.


def inode_of(path: str | Path) -> int:
    """Return the inode number of the file at `path`, or 0 if there is no file."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


# Full disks: detection and the remedy in error messages.

FREE_SPACE = "make room"
# SQLite does not report which of the two it is.
ROOM_OR_DISK = f"{FREE_SPACE} if its disk is full, else check the disk (see the system log)"


def is_disk_full(error: BaseException) -> bool:
    """Return whether the system refused a write because the disk or the user's quota is full."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
