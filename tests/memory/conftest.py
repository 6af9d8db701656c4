"""Temporary folders in memory, since most of these tests would wait for the disk otherwise, and a
store in a transaction.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.builders import FAST_ROOT, assert_sound, make_store


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory if the machine has one, in place of pytest's folder on disk."""
    with TemporaryDirectory(dir=FAST_ROOT, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        yield tx
    store.close()
    assert_sound(store.path)
