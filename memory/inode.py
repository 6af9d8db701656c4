"""Which file is at a path: a program that has it open goes on with what it opened, whatever is put
there."""

import os
from pathlib import Path


def inode_of(path: str | Path) -> int:
    """0 where there is no file."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
