"""Temporary folders in memory, since most of these tests would wait for the disk otherwise."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.memory.builders import FAST_ROOT


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory if the machine has one, in place of pytest's folder on disk."""
    with TemporaryDirectory(dir=FAST_ROOT, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
