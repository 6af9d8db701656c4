"""A small disk that can be filled: a tmpfs, where this user may mount one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

import pytest


class SmallDisk:
    """A folder with little room."""

    def __init__(self, folder: Path) -> None:
        """It is mounted there."""
        self._ballast = folder / "ballast"

    def fill(self, room: int = 0) -> None:
        """Nothing more can be written, or so many bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                with suppress(OSError):  # it is full
                    _write_for_ever(file, size)
            file.truncate(max(0, file.tell() - room))

    def free(self) -> None:
        """What filled it is gone."""
        self._ballast.unlink()


def _write_for_ever(file: FileIO, size: int) -> None:
    while file.write(bytes(size)) == size:
        pass


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A disk at a folder, which is made; the test is skipped where none can be mounted."""
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
