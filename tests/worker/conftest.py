"""A house that the tests of one file share. Each test deploys new pipelines in it."""

from collections.abc import Iterator

import pytest

from tests.support.house import House


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A server, a memory root, and a worker that runs for the whole file."""
    with House() as house:
        worker = house.start_worker()
        yield house
        assert worker.stop() == 0
