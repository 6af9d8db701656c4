"""A feature of a store's write path that only tests add to FEATURES."""

from collections.abc import Sequence
from typing import Any

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import PolicyStop


class Diary(Feature):
    """Writes one row for each batch: the ids of its inputs, and the guids of its new records."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._connection.execute("CREATE TABLE IF NOT EXISTS diary(inputs, created)")
        self._inputs: list[str] = []
        self._created: list[str] = []

    def created(self, guid: str) -> None:
        self._created.append(guid)

    def ran(self, inputs: Sequence[tuple[Any, Any]]) -> None:
        self._inputs += [work.id for work, _ in inputs]

    def complete(self) -> None:
        if self._inputs:
            row = ",".join(self._inputs), ",".join(self._created)
            self._connection.execute("INSERT INTO diary VALUES (?, ?)", row)
            self.reset()

    def reset(self) -> None:
        self._inputs, self._created = [], []


class Censor(Feature):
    """Policies that need no rules: SECRET is replaced, REFUSED stops a write."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._findings = store.records.findings

    def admit(self, new: State, before: State | None) -> State:
        """Look at the content."""
        if "SECRET" in new.content:
            self._findings["SECRET"] = "[secret]"
            new = new._replace(content=new.content.replace("SECRET", "[secret]"))
        if "REFUSED" in new.content:
            raise PolicyStop("no refusals", "refuse", new, before)
        return new
