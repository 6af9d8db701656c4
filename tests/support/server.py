"""A server alone, for tests that need no house."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memrelay.bus.embedded.launcher import EmbeddedServer


@contextmanager
def running_server(folder: Path) -> Iterator[EmbeddedServer]:
    """It answers; at the end of the context it has ended."""
    server = EmbeddedServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
