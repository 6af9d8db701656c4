"""Complete systems that the tests of several files share. Each test deploys its own pipelines."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

from tests.support.system import TestSystem
from tests.support.web_system import WebSystem

System = TypeVar("System")
# A deploy costs more the more pipelines there are: 14 ms with none, 45 ms with 300.
MOST_PIPELINES = 150
SECRETS = {"HOOK_TOKEN": "tea-with-milk", "EMPTY_TOKEN": ""}


class Shared(Generic[System]):
    """A running system, replaced by a new one when it has many pipelines. Use it as a context."""

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[System]],
        find_system: Callable[[System], TestSystem],
    ) -> None:
        self._start, self._find_system, self._stack = start, find_system, ExitStack()
        self._running: System | None = None

    def __enter__(self) -> "Shared[System]":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def get(self) -> System:
        """Return the system for the tests of one file."""
        if self._running is None or self._find_system(self._running).deployed > MOST_PIPELINES:
            self._stack.close()
            self._running = None
            self._running = self._stack.enter_context(self._start())
        return self._running


@contextmanager
def running_system() -> Iterator[TestSystem]:
    """A bus server, a memory root, and a worker that must end in order."""
    with TestSystem() as system:
        worker = system.start_worker()
        yield system
        assert worker.stop() == 0


@contextmanager
def running_web_system() -> Iterator[WebSystem]:
    """A bus server, a memory root, a worker and a web server, which fails no request."""
    with WebSystem(secrets=SECRETS, WEB__RATE="0") as web_system:
        yield web_system
        assert web_system.web.stop() == 0
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]
