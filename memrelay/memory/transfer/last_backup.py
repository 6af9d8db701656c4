"""When the last complete backup of a memory root was made, for monitoring."""

import os
from contextlib import suppress
from pathlib import Path

NAME = "last-backup"


def note_last_backup(root: Path, made_at: int) -> None:
    """Note the time of a complete backup (Unix ms). Raises OSError."""
    file = root / NAME
    file.touch(mode=0o600)
    os.utime(file, ns=(made_at * 1_000_000, made_at * 1_000_000))


def read_last_backup(root: Path) -> int:
    """Return when the last complete backup was made (Unix ms), 0 if there was none."""
    with suppress(OSError):
        return (root / NAME).stat().st_mtime_ns // 1_000_000
    return 0
