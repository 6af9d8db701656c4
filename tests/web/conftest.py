"""Fixtures: complete systems. Each test deploys its own pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

import pytest

from tests.support.keys import await_closed, make_key
from tests.support.served import Served
from tests.support.shared import Shared, running_served
from tests.support.soat import Soat


@pytest.fixture(scope="session")
def shared_served() -> Iterator[Shared[Served]]:
    with Shared(running_served, attrgetter("house")) as shared:
        yield shared


@pytest.fixture(scope="module")
def served(shared_served: Shared[Served]) -> Served:
    """A bus, a memory root, a worker, and a web server, for tests that neither stop nor change
    them.
    """
    return shared_served.get()


@pytest.fixture(scope="session")
def shared_keyed() -> Iterator[Shared[Served]]:
    with Shared(running_keyed, attrgetter("house")) as shared:
        yield shared


@contextmanager
def running_keyed() -> Iterator[Served]:
    with running_served() as served:
        make_key(served.house.root)
        await_closed(served)
        yield served


@pytest.fixture(scope="module")
def keyed(shared_keyed: Shared[Served]) -> Served:
    """A system that has a key, and always keeps one."""
    return shared_keyed.get()


@pytest.fixture(scope="module")
def soat() -> Iterator[Soat]:
    """Start a system with the built-in embedder and one pipeline."""
    with Served(worker=False) as served:
        served.house.start_worker(embedding={"model": "local"})
        soat = Soat(served, served.deploy())
        soat.await_embedder()
        yield soat
        assert not [event for event in served.web.events if event["event"] == "request_failed"]
