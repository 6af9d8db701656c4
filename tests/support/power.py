"""A power cut: writes that were not synced are lost (tests/faults/lose_unsynced.c)."""

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.child import CHECKOUT

SOURCE = CHECKOUT / "tests" / "faults" / "lose_unsynced.c"
HEAD = struct.Struct("c7xQQQQ")


class Written(NamedTuple):
    """The former bytes of a file before a write, a truncation or a sync."""

    kind: bytes
    inode: int
    offset: int
    size: int
    was: bytes


class Power:
    """Power cuts for the processes of one folder."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Compile the library into `folder`; only files below `root` can lose writes."""
        folder.mkdir(parents=True, exist_ok=True)
        self._library, self._journal, self._root = (
            folder / "lose_unsynced.so",
            folder / "journal",
            root,
        )
        subprocess.run(
            [
                "gcc",
                "-shared",
                "-fPIC",
                "-O1",
                "-Wall",
                "-Werror",
                "-o",
                self._library,
                SOURCE,
                "-ldl",
                "-lpthread",
            ],
            check=True,
            timeout=60,
        )

    def environment(self, die_at: int = 0) -> dict[str, str]:
        """Return the environment of a process; with `die_at` it kills itself before that sync."""
        ours = {
            "LD_PRELOAD": str(self._library),
            "LOSE_UNDER": str(self._root.resolve()),
            "LOSE_JOURNAL": str(self._journal),
        }
        return ours | ({"LOSE_DIE_AT": str(die_at)} if die_at else {})

    def cut(self) -> int:
        """Undo all writes that were not synced, after the processes have ended; return how many
        there were.
        """
        records = list(self._records())
        files = {os.stat(path).st_ino: path for path in self._root.rglob("*") if path.is_file()}
        synced: set[int] = set()
        undone = 0
        for record in reversed(records):
            if record.kind == b"S":
                synced.add(record.inode)
            elif record.inode not in synced and record.inode in files:
                _undo(files[record.inode], record)
                undone += 1
        self._journal.unlink(missing_ok=True)
        return undone

    def _records(self) -> Iterator[Written]:
        content = self._journal.read_bytes() if self._journal.exists() else b""
        at = 0
        while at + HEAD.size <= len(content):
            kind, inode, offset, size, length = HEAD.unpack_from(content, at)
            at += HEAD.size + length
            yield Written(kind, inode, offset, size, content[at - length : at])


def _undo(file: Path, record: Written) -> None:
    with file.open("r+b") as opened:
        opened.seek(record.offset)
        opened.write(record.was)
        opened.truncate(record.size)
