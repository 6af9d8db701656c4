"""A system that all tests share, and none stops or changes. Each deploys new pipelines."""

from collections.abc import Iterator

import pytest

from tests.support.shared import Shared, running_system
from tests.support.system import TestSystem


@pytest.fixture(scope="session")
def shared_system() -> Iterator[Shared[TestSystem]]:
    with Shared(running_system, lambda system: system) as shared:
        yield shared


@pytest.fixture(scope="module")
def system(shared_system: Shared[TestSystem]) -> TestSystem:
    """A server, a memory root, and a worker that runs for all tests."""
    return shared_system.get()
