"""A feature of a store's write path that only tests add to FEATURES."""

from collections.abc import Sequence
from typing import Any

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.store import Store


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
