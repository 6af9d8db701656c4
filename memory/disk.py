"""Files and folders that are there as a whole or not at all, and still are after a power cut."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args


@contextmanager
def write_whole_file(path: Path) -> Iterator[Path]:
    """Another name for a file that is made: it is at `path` when it is done. A crash leaves no half
    of one there, and what is
    there already is not overwritten.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    os.close(descriptor)
    try:
        yield Path(draft)
        with suppress(FileExistsError):  # another process was first
            os.link(draft, path)
    finally:
        os.unlink(draft)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Private, with all folders above it, and on disk: what is acknowledged must be found after a
    power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """What was made, renamed or removed in it stays so."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Drafts: what is to take a file's place is made beside it first, under a name that nothing else
# has.

Way = Literal["restored", "salvaged"]
LOGS = ("-wal", "-shm")  # what SQLite keeps beside a file


@contextmanager
def drafted(path: Path, way: Way) -> Iterator[Path]:
    """A name beside `path` for what is to take its place. Nothing is left at it, or beside it,
    neither of one that was
    interrupted before, whose log SQLite would take for the new one's, nor afterwards.
    """
    draft = _draft_of(path, way)
    _remove(draft)
    try:
        yield draft
    finally:
        _remove(draft)


def clear_drafts(path: Path) -> None:
    """Removes what a program has left beside `path` that was killed. For those that keep any other
    from drafting meanwhile."""
    for way in get_args(Way):
        _remove(_draft_of(path, way))


def _draft_of(path: Path, way: Way) -> Path:
    return path.with_name(f".{path.name}.{way}")


def _remove(draft: Path) -> None:
    for suffix in ("", *LOGS, "-journal"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)


# Which file is at a path: a program that has it open goes on with what it opened, whatever is put
# there.


def inode_of(path: str | Path) -> int:
    """0 where there is no file."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


# Disks without room: how it is told, and what to do about them.

ROOM = "make room"
# it may be either
ROOM_OR_DISK = f"{ROOM} where its disk is full, else look at the disk (the system's log says more)"


def is_disk_full(error: BaseException) -> bool:
    """Whether the system refused something since the disk is full, or what this user may take of
    it."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
