"""Fixtures: a home folder with the hook, and a shared system with a web server."""

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from tests.support.capture import CaptureHome
from tests.support.shared import Shared, running_web_system
from tests.support.web_system import WebSystem


@pytest.fixture
def home(tmp_path: Path) -> CaptureHome:
    """A home with a repository, and the hook installed for a store file."""
    made = CaptureHome(tmp_path)
    made.make_repository()
    made.install()
    return made


@pytest.fixture(scope="session")
def shared_web_system() -> Iterator[Shared[WebSystem]]:
    with Shared(running_web_system, attrgetter("system")) as shared:
        yield shared


@pytest.fixture(scope="module")
def web_system(shared_web_system: Shared[WebSystem]) -> WebSystem:
    """A bus, a worker and a web server, which the tests neither stop nor change."""
    return shared_web_system.get()
