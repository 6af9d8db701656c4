"""Files and folders that are there as a whole or not at all, and still are after a power cut."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
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
