"""Paths as people write them: with a ~, below some folder, and with names that the system and
SQLite read alike."""

import os
import sys
from pathlib import Path


def path_below(folder: Path, written: str | Path) -> Path:
    """What is written, from the folder on where it is relative. Raises ValueError with the rule and
    the remedy."""
    try:
        path = Path(folder, Path(written).expanduser())
    except RuntimeError as error:
        raise ValueError(
            "must be a path in full: nobody's home folder is known by the name that it begins with"
        ) from error
    if "\0" in str(path):
        raise ValueError("must be a path without the character NUL")
    if not _is_one_file(str(path)):
        raise ValueError(_why_two())
    return path


def _is_one_file(path: str) -> bool:
    """Whether it is the same file to SQLite, which writes names in UTF-8, and to the system, where
    the locale decides."""
    try:
        return os.fsencode(path) == path.encode()
    except UnicodeEncodeError:
        return False


def _why_two() -> str:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return "must be a path in UTF-8, and a folder in it has another name; rename that folder, or name another path"
    return f"must be a path in plain ASCII while the locale is {encoding}; name another, or set LC_ALL=C.UTF-8"
