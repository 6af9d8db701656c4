"""Complete systems that the tests of several files share. Each test deploys its own pipelines."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

from tests.support.house import House
from tests.support.served import Served

System = TypeVar("System")
# A deploy costs more the more pipelines there are: 14 ms with none, 45 ms with 300.
MOST_PIPELINES = 150
SECRETS = {"HOOK_TOKEN": "tea-with-milk", "EMPTY_TOKEN": ""}


class Shared(Generic[System]):
    """A running system, replaced by a new one when it has many pipelines. Use it as a context."""

    def __init__(
        self,
        start: Callable[[], AbstractContextManager[System]],
        find_house: Callable[[System], House],
    ) -> None:
        self._start, self._find_house, self._stack = start, find_house, ExitStack()
        self._running: System | None = None

    def __enter__(self) -> "Shared[System]":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def get(self) -> System:
        """Return the system for the tests of one file."""
        if self._running is None or self._find_house(self._running).deployed > MOST_PIPELINES:
            self._stack.close()
            self._running = None
            self._running = self._stack.enter_context(self._start())
        return self._running


@contextmanager
def running_house() -> Iterator[House]:
    """A bus server, a memory root, and a worker that must end in order."""
    with House() as house:
        worker = house.start_worker()
        yield house
        assert worker.stop() == 0


@contextmanager
def running_served() -> Iterator[Served]:
    """A bus server, a memory root, a worker and a web server, which fails no request."""
    with Served(secrets=SECRETS, WEB__RATE="0") as served:
        yield served
        assert served.web.stop() == 0
        assert not [event for event in served.web.events if event["event"] == "request_failed"]
