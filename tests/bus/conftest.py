"""The server that the tests of one file share; a file that kills its server overrides it."""

from collections.abc import Iterator

import pytest

from memrelay.bus.embedded.launcher import EmbeddedServer
from tests.support.server import running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """Yield a running server."""
    with running_server(tmp_path_factory.mktemp("bus")) as server:
        yield server
