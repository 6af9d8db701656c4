"""When backups were made: the names of those in an object store, and the time of the last one."""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
LAST_BACKUP = "last-backup"


def format_name(made_at: int) -> str:
    """Return the name of a backup that began at that time (Unix ms)."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(made_at / 1000))


def parse_name(name: str) -> datetime:
    """Return the time in a name."""
    return datetime.strptime(name, "%Y%m%dT%H%M%S%z")


def choose_surplus(names: Sequence[str], days: int, weeks: int) -> list[str]:
    """Return the backups to delete. `names` are sorted.

    Of each of the last `days` days and `weeks` weeks that have backups, the newest one stays, and
    so does the newest of all.
    """
    remaining = set(names[-1:])
    for count, period in ((days, "%Y-%m-%d"), (weeks, "%G-%V")):
        newest = {parse_name(name).strftime(period): name for name in names}
        remaining.update(list(newest.values())[::-1][:count])
    return [name for name in names if name not in remaining]


def note_last_backup(root: Path, made_at: int) -> None:
    """Note the time of a complete backup (Unix ms). Raises OSError."""
    file = root / LAST_BACKUP
    file.touch(mode=0o600)
    os.utime(file, ns=(made_at * 1_000_000, made_at * 1_000_000))


def read_last_backup(root: Path) -> int:
    """Return when the last complete backup was made (Unix ms), 0 if there was none."""
    with suppress(OSError):
        return (root / LAST_BACKUP).stat().st_mtime_ns // 1_000_000
    return 0
