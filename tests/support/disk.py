"""A small tmpfs disk that a test can fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

import pytest


class SmallDisk:
    """A folder with little space."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, room: int = 0) -> None:
        """Fill the disk, or write so many bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                with suppress(OSError):  # the disk is full
                    _write_for_ever(file, size)
            file.truncate(max(0, file.tell() - room))

    def free(self) -> None:
        """Remove the filler."""
        self._ballast.unlink()


def _write_for_ever(file: FileIO, size: int) -> None:
    while file.write(bytes(size)) == size:
        pass


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a disk at a new folder; skip the test if this user may not mount."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk is a tmpfs, which only root may mount")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
