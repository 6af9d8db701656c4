"""Locks of other programs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the write lock of a store from another connection."""
    connection = apsw.Connection(str(file))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
