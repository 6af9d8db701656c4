"""A bus server for tests that need nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memrelay.bus.embedded.launcher import EmbeddedServer


@contextmanager
def running_server(folder: Path) -> Iterator[EmbeddedServer]:
    """Run the server, which needs no password, until the end of the context."""
    server = EmbeddedServer(folder, with_password=False)
    server.start()
    try:
        yield server
    finally:
        server.stop()
