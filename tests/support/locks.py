"""Other programs that are in the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another program has the write lock of a store."""
    connection = apsw.Connection(str(file))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
