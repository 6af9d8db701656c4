"""Fixtures: complete systems. Each test deploys its own pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

import pytest

from tests.support.keys import await_closed, make_key
from tests.support.shared import Shared, running_web_system
from tests.support.soat import Soat
from tests.support.web_system import WebSystem


@pytest.fixture(scope="session")
def shared_web_system() -> Iterator[Shared[WebSystem]]:
    with Shared(running_web_system, attrgetter("system")) as shared:
        yield shared


@pytest.fixture(scope="module")
def web_system(shared_web_system: Shared[WebSystem]) -> WebSystem:
    """A bus, a memory root, a worker, and a web server, for tests that neither stop nor change
    them.
    """
    return shared_web_system.get()


@pytest.fixture(scope="session")
def shared_keyed() -> Iterator[Shared[WebSystem]]:
    with Shared(running_keyed, attrgetter("system")) as shared:
        yield shared


@contextmanager
def running_keyed() -> Iterator[WebSystem]:
    with running_web_system() as web_system:
        make_key(web_system.system.root)
        await_closed(web_system)
        yield web_system


@pytest.fixture(scope="module")
def keyed(shared_keyed: Shared[WebSystem]) -> WebSystem:
    """A system that has a key, and always keeps one."""
    return shared_keyed.get()


@pytest.fixture(scope="module")
def soat() -> Iterator[Soat]:
    """Start a system with the built-in embedder and one pipeline."""
    with WebSystem(worker=False) as web_system:
        web_system.system.start_worker(embedding={"model": "local"})
        soat = Soat(web_system, web_system.deploy())
        soat.await_embedder()
        yield soat
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]
