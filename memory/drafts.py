"""Drafts: what is to take a file's place is made beside it first, under a name that nothing else
has."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

Way = Literal["restored", "salvaged"]
LOGS = ("-wal", "-shm")  # what SQLite keeps beside a file


@contextmanager
def drafted(path: Path, way: Way) -> Iterator[Path]:
    """A name beside `path` for what is to take its place. Nothing is left at it, or beside it,
    neither of one that was
    interrupted before, whose log SQLite would take for the new one's, nor afterwards.
    """
    draft = _draft_of(path, way)
    _remove(draft)
    try:
        yield draft
    finally:
        _remove(draft)


def clear_drafts(path: Path) -> None:
    """Removes what a program has left beside `path` that was killed. For those that keep any other
    from drafting meanwhile."""
    for way in get_args(Way):
        _remove(_draft_of(path, way))


def _draft_of(path: Path, way: Way) -> Path:
    return path.with_name(f".{path.name}.{way}")


def _remove(draft: Path) -> None:
    for suffix in ("", *LOGS, "-journal"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)
