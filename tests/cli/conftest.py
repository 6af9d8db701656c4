"""Fixtures with a running program."""

from collections.abc import Iterator

import pytest

from tests.cli.serving import serving
from tests.support.program import Program


@pytest.fixture(scope="session")
def served() -> Iterator[Program]:
    """Yield a running program for all tests that do not change it."""
    with serving() as program:
        yield program


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a running program for the tests of one file. A file can override it."""
    with serving() as program:
        yield program
