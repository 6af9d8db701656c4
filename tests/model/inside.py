"""The same callers on an open store without a bus: many thousand steps in little time, with
rollbacks instead of kills.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson

from memrelay.memory.engine.retention import delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.operations import Context, all_operations
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.transfer.export import export_lines
from tests.memory.builders import MEMORY_ID, NOW, PLENTY, make_store
from tests.model.faces import ACTOR, Told


class Inside:
    """A store that is rolled back, closed and reopened. Time advances by some milliseconds per
    call.
    """

    uid = "a3d8f1b2"

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root, self._chance, self._now_ms, self._guids = root, chance, NOW, 0
        self.now_ms: Callable[[], int] = lambda: self._now_ms
        self.store: Store = make_store(root)

    def call(self, op: str, given: dict[str, Any], faces: list[str]) -> Told:
        """Make a call and commit it; first it may be rolled back, or share a transaction with
        others.
        """
        self._now_ms += self._chance.choice([0, 1, 5, 200])
        if self._chance.random() < 0.1:
            self.commit()
            self._perform(op, given)
            self._undo()
        told = self._perform(op, given)
        if self._chance.random() < 0.7:
            self.commit()
        return told

    call_twice = call

    def say(self, text: str, sender: str) -> Any:
        """There is no swarm."""
        raise NotImplementedError

    def soat(self, path: str) -> None:
        """There are no SOAT paths."""

    def commit(self) -> None:
        """Commit, and sometimes delete expired data."""
        if self.store.in_transaction:
            self.store.commit()
        if self._chance.random() < 0.05:
            while delete_expired(self.store, self._now_ms, 90).gone:
                pass

    def moved(self, root: Path) -> "Inside":
        """Return a new store with the export of this one, imported in pieces."""
        self.store.close()
        found = [
            msgspec.json.encode(line).decode()
            for line in export_lines(Path(self.store.path), MEMORY_ID, self._now_ms)
        ]
        other = Inside(root, self._chance)
        other._now_ms = self._now_ms
        while found:
            count = self._chance.randint(1, 100)
            refusal, told = other.call("records.import", {"lines": found[:count]}, [])
            assert not refusal, told
            found = found[count:]
        other.commit()
        return other

    def _undo(self) -> None:
        """Roll back as a crash does, and perhaps reopen the file."""
        self.store.rollback()
        if self._chance.random() < 0.3:
            self.store.close()
            self.store = make_store(self._root)

    def _perform(self, op: str, given: dict[str, Any]) -> Told:
        if not self.store.in_transaction:
            self.store.begin()
        operation = all_operations()[op]
        try:
            asked = operation.adapter.validate_json(orjson.dumps(given), strict=True)
            told = operation.run(
                self.store, asked, Context(self._now_ms, ACTOR, PLENTY, self._new_guid)
            )
        except Refused as error:
            return error.code, str(error)
        return "", msgspec.json.decode(orjson.dumps(told))

    def _new_guid(self) -> str:
        self._guids += 1
        return derive_guid(self.uid, f"{self._now_ms}-{self._guids}", "caller", 1)


assert f"instances/{Inside.uid}/memories" == MEMORY_ID
