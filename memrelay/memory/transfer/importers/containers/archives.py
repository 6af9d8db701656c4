"""Read the entries of a zip file by name, within limits. Nothing is extracted to a path."""

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile, is_zipfile

from memrelay.memory.transfer.importers.source import RefusedFile

MAX_UNPACKED = 4 << 30  # bytes
DRIVE = re.compile(r"[A-Za-z]:")
FLAG_ENCRYPTED = 0x1
DAMAGE = (BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError)


class Archive:
    """The entries of a checked zip file."""

    def __init__(self, file: ZipFile, name: str) -> None:
        self._file = file
        self._name = name

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the entries whose last part matches, sorted."""
        names = set(self._file.namelist())
        return sorted(name for name in names if pattern.fullmatch(name.rpartition("/")[2]))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open an entry. Raises RefusedFile, also while the entry is read in the context."""
        try:
            with self._file.open(name) as entry:
                yield entry
        except DAMAGE as error:
            raise _damaged(self._name, f"{name}: {error}") from error


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip file."""
    return is_zipfile(path)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip file and check its entries.

    Raises RefusedFile: when the file is damaged or encrypted, has more than 4 GiB unpacked, or an
    entry has an absolute name or `..` in its name.
    """
    try:
        file = ZipFile(path)
    except (BadZipFile, NotImplementedError) as error:
        raise _damaged(path.name, str(error)) from error
    with file:
        _check(file, path.name)
        yield Archive(file, path.name)


def _check(file: ZipFile, name: str) -> None:
    unpacked = 0
    for entry in file.infolist():
        parts = re.split(r"[/\\]", entry.filename)
        if parts[0] == "" or ".." in parts or DRIVE.match(parts[0]):
            raise RefusedFile(
                f"{name}: the entry {entry.filename[:80]!r} has an absolute name or `..` in its "
                "name; download the export again"
            )
        if entry.flag_bits & FLAG_ENCRYPTED:
            raise RefusedFile(f"{name} is encrypted; unpack it and import its conversations.json")
        # zipfile stops reading an entry at this size, even if it has more data.
        unpacked += entry.file_size
    if unpacked > MAX_UNPACKED:
        raise RefusedFile(
            f"{name} has more than {MAX_UNPACKED >> 30} GiB unpacked; unpack it and import its "
            "conversations.json"
        )


def _damaged(name: str, reason: str) -> RefusedFile:
    return RefusedFile(f"{name} is damaged: {reason[:200]}; download the export again")
