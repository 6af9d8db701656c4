"""Fixtures: a complete system per test file. Each test deploys its own pipelines."""

from collections.abc import Iterator

import pytest

from tests.support.keys import await_closed, make_key
from tests.support.served import Served
from tests.support.soat import Soat

SECRETS = {"HOOK_TOKEN": "tea-with-milk", "EMPTY_TOKEN": ""}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Start a bus, a memory root, a worker, and a web server for one test file."""
    with Served(secrets=SECRETS, WEB__MAX_WAIT_S="20") as served:
        yield served
        assert served.web.stop() == 0
        assert not [event for event in served.web.events if event["event"] == "request_failed"]


@pytest.fixture(scope="module")
def keyed() -> Iterator[Served]:
    """Start a system that has a key."""
    with Served() as served:
        make_key(served.house.root)
        await_closed(served)
        yield served


@pytest.fixture(scope="module")
def soat() -> Iterator[Soat]:
    """Start a system with the built-in embedder and one pipeline."""
    with Served(worker=False) as served:
        served.house.start_worker(embedding={"model": "local"})
        yield Soat(served, served.deploy())
        assert not [event for event in served.web.events if event["event"] == "request_failed"]
