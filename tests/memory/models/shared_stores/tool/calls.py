"""Calls of the memory tool in a store, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memrelay.memory.engine.store import Store
from memrelay.memory.models.shared_stores.tool.arguments import is_read
from tests.memory.builders import FAST_ROOT, NOW, make_store, perform

HOME = "instances/a3d8f1b2/stores"


@contextmanager
def open_home() -> Iterator[Store]:
    """Open an empty store of items."""
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = make_store(Path(root), HOME)
        yield store
        store.close()


class Agent:
    """An agent that calls its memory tool, and the operations below it."""

    def __init__(self, store: Store, name: str = "a1", dialect: str = "robutler") -> None:
        self._store, self.name, self._dialect = store, name, dialect
        self.now_ms = NOW

    def call(self, name: str, /, **given: Any) -> Any:
        """Run an operation as this agent, in its own transaction."""
        with self._store.transaction() as tx:
            return perform(tx, name, now_ms=self.now_ms, **{"agent": self.name} | given)

    def answer(self, arguments: dict[str, Any], **given: Any) -> tuple[Any, bool]:
        """Return (value, is_error) of a tool call."""
        name = "read" if is_read(arguments, self._dialect) else "write"
        said = self.call(f"memory_tool.{name}", arguments=arguments, dialect=self._dialect, **given)
        return said.value, said.is_error

    def use(self, command: str, path: str = "", /, **given: Any) -> Any:
        """Return the value of a command that succeeds."""
        value, is_error = self.answer(make_arguments(command, path) | given)
        assert not is_error, value
        return value

    def fail(self, command: str, path: str = "", /, **given: Any) -> str:
        """Return the text of a command that fails."""
        value, is_error = self.answer(make_arguments(command, path) | given)
        assert is_error, value
        return str(value if self._dialect == "anthropic" else value["error"])


def make_arguments(command: str, path: str = "") -> dict[str, Any]:
    return {"command": command} | ({"path": path} if path else {})
