"""What the tests of the commands that need a bus share."""

from collections.abc import Iterator

import pytest

from tests.cli.serving import serving
from tests.support.program import Program


@pytest.fixture(scope="session")
def served() -> Iterator[Program]:
    """`memrelay up`, for all tests that leave it running as it is."""
    with serving() as program:
        yield program


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """One for the tests of a file alone, which change it; a file whose tests need none has its own
    fixture of that name."""
    with serving() as program:
        yield program
