"""Find the process that holds a lock on a file. Linux lists all locks in /proc/locks."""

import os
from contextlib import suppress
from pathlib import Path

LOCKS = Path("/proc/locks")
# The byte of the `-shm` file that a writer of a database in WAL mode locks (sqlite.org/walformat).
WAL_WRITE_LOCK = 120
# Words of a line: number, kind, ADVISORY, READ or WRITE, process, device and inode, first, last.
WORDS = 8


def find_writer(path: Path | str) -> int:
    """Return the process that holds SQLite's write lock on a store; 0 if none is known.

    The current process does not count. Only Linux reports the holder.
    """
    found = find_holder(f"{path}-shm", "POSIX", WAL_WRITE_LOCK)
    return 0 if found == os.getpid() else found


def find_holder(file: Path | str, kind: str, byte: int = 0) -> int:
    """Return the process with a write lock on a byte of a file; 0 if none is known.

    `kind` is POSIX or FLOCK. A process of another container is not known.
    """
    try:
        about, lines = os.stat(file), LOCKS.read_text().splitlines()
    except OSError:
        return 0
    device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    for words in map(str.split, lines):
        if len(words) != WORDS or words[1] != kind or words[3] != "WRITE" or words[5] != device:
            continue
        if int(words[6]) <= byte and (words[7] == "EOF" or byte <= int(words[7])):
            return max(0, int(words[4]))
    return 0


def describe_writer(path: Path | str) -> str:
    """Return " (process NUMBER, NAME)" for the process with the write lock, "" if unknown."""
    return describe_process(find_writer(path))


def describe_process(process: int) -> str:
    """Return " (process NUMBER, NAME)", "" for 0. The name is left out if it is unknown."""
    if not process:
        return ""
    name = ""
    with suppress(OSError):
        name = Path(f"/proc/{process}/comm").read_text(errors="replace").strip()
    return f" (process {process}{name and ', '}{name})"
