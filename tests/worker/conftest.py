"""A house that all tests share which neither stop nor change it. Each deploys new pipelines."""

from collections.abc import Iterator

import pytest

from tests.support.house import House
from tests.support.shared import Shared, running_house


@pytest.fixture(scope="session")
def shared_house() -> Iterator[Shared[House]]:
    with Shared(running_house, lambda house: house) as shared:
        yield shared


@pytest.fixture(scope="module")
def house(shared_house: Shared[House]) -> House:
    """A server, a memory root, and a worker that runs for all tests."""
    return shared_house.get()
