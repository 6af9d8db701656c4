"""Zip files and folders: their files are read by name, within limits.

Nothing is extracted to a path. Links and hidden folders, such as `.obsidian`, are not followed.
"""

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import IO, Protocol
from zipfile import BadZipFile, ZipFile, ZipInfo, is_zipfile

from memrelay.memory.transfer.importers.source import RefusedFile

# Bytes, and unpacked bytes per byte of the zip file. A small zip file may exceed the ratio.
MAX_UNPACKED, MAX_RATIO, SMALL = 2 << 30, 100, 1 << 20
MAX_FILES = 100_000
DRIVE = re.compile(r"[A-Za-z]:")
FLAG_ENCRYPTED = 0x1
DAMAGE = (BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError)
# A folder that macOS adds to zip files.
HIDDEN = (".", "__MACOSX")


class Container(Protocol):
    """The files of a zip file or a folder."""

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the paths in the container of the files whose name matches, sorted."""

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file. Raises RefusedFile and OSError, also while it is read in the context."""


class Archive:
    """The entries of a checked zip file."""

    def __init__(self, file: ZipFile, name: str) -> None:
        self._file = file
        self._name = name

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the entries whose last part matches, sorted."""
        return sorted(
            name
            for name in set(self._file.namelist())
            if pattern.fullmatch(name.rpartition("/")[2])
            and not any(part.startswith(HIDDEN) for part in name.split("/"))
        )

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open an entry. Raises RefusedFile, also while the entry is read in the context."""
        try:
            with self._file.open(name) as entry:
                yield entry
        except DAMAGE as error:
            raise _damaged(self._name, f"{name}: {error}") from error


class Folder:
    """The files of a folder and the folders in it."""

    def __init__(self, root: Path) -> None:
        """Raises RefusedFile: the folder has too many files."""
        self._root = root
        self._names: list[str] = []
        self._folders = [root]
        while self._folders:
            with os.scandir(self._folders.pop()) as entries:
                for entry in entries:
                    self._visit(entry)

    def _visit(self, entry: os.DirEntry[str]) -> None:
        if entry.name.startswith(HIDDEN):
            return
        if entry.is_dir(follow_symlinks=False):
            self._folders.append(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            self._add(Path(entry.path))

    def _add(self, path: Path) -> None:
        if len(self._names) >= MAX_FILES:
            raise RefusedFile(
                f"{self._root} has more than {MAX_FILES:,} files; import its folders one by one"
            )
        self._names.append(path.relative_to(self._root).as_posix())

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the paths of the files whose name matches, sorted."""
        return sorted(one for one in self._names if pattern.fullmatch(one.rpartition("/")[2]))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file. Raises OSError."""
        with (self._root / name).open("rb") as file:
            yield file


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip file, by its content."""
    return path.is_file() and is_zipfile(path)


def is_container(path: Path) -> bool:
    """Return whether a path is a folder or a zip file."""
    return path.is_dir() or is_archive(path)


@contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Open a folder, or a zip file as `open_archive` does. Raises RefusedFile and OSError."""
    if path.is_dir():
        yield Folder(path)
        return
    with open_archive(path) as archive:
        yield archive


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip file and check its entries.

    Raises RefusedFile: when the file is damaged or encrypted, has more than 2 GiB or 100 times its
    size unpacked, more than 100,000 entries, or an entry with an absolute name or `..` in its name.
    """
    try:
        file = ZipFile(path)
    except (BadZipFile, NotImplementedError) as error:
        raise _damaged(path.name, str(error)) from error
    with file:
        _check(file.infolist(), path)
        yield Archive(file, path.name)


def _check(entries: list[ZipInfo], path: Path) -> None:
    name = path.name
    if len(entries) > MAX_FILES:
        raise RefusedFile(
            f"{name} has more than {MAX_FILES:,} entries; unpack it and import its folders"
        )
    unpacked = 0
    for entry in entries:
        parts = re.split(r"[/\\]", entry.filename)
        if parts[0] == "" or ".." in parts or DRIVE.match(parts[0]):
            raise RefusedFile(
                f"{name}: the entry {entry.filename[:80]!r} has an absolute name or `..` in its "
                "name; download the export again"
            )
        if entry.flag_bits & FLAG_ENCRYPTED:
            raise RefusedFile(f"{name} is encrypted; unpack it and import its folder")
        # zipfile stops reading an entry at this size, even if it has more data.
        unpacked += entry.file_size
    if unpacked > MAX_UNPACKED:
        raise RefusedFile(
            f"{name} has more than {MAX_UNPACKED >> 30} GiB unpacked; unpack it and import its "
            "folder"
        )
    if unpacked > max(SMALL, MAX_RATIO * path.stat().st_size):
        raise RefusedFile(
            f"{name} has more than {MAX_RATIO} times its size unpacked; if you trust it, unpack it "
            "and import its folder"
        )


def _damaged(name: str, reason: str) -> RefusedFile:
    return RefusedFile(f"{name} is damaged: {reason[:200]}; download the export again")
