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
