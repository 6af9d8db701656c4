"""The past of an embedded store. Loaded with the first call that has `as_of`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from memrelay.client.read_state import LAST_READ, ReadState
from memrelay.memory.engine.as_of import PastStates
from memrelay.memory.engine.snapshots import SnapshotKey, Snapshots
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time, parse_ms

# Bytes of the snapshots that are kept, as memory.snapshot_mib.
MAX_BYTES = 1 << 30


class PastStore(NamedTuple):
    """A store as it was at a time, Unix ms."""

    store: Store
    at_ms: int


class EmbeddedPast:
    """The snapshots of an open store. `on_close` takes what removes them at the end."""

    def __init__(self, store: Store, on_close: Callable[[Callable[[], None]], object]) -> None:
        self._store = store
        self._snapshots = Snapshots(Path(store.path).parent, MAX_BYTES, store.meaning)
        on_close(self._snapshots.close)

    def find(self, as_of: str) -> PastStore:
        """Return the store as it was. Raises Refused, TooOld, StoreBusy and StoreBroken."""
        state = self._store.table(PastStates).find(as_of)
        memory_id, path = self._store.memory_id, Path(self._store.path)
        made = self._snapshots.make(memory_id, path, state)
        today_ms = time.time_ns() // 1_000_000
        self._snapshots.renew_rights(SnapshotKey(memory_id, state.change), path, today_ms)
        LAST_READ.set(ReadState(state.change, format_time(state.at_ms), made.incomplete))
        return PastStore(made.store, parse_ms(as_of) or state.at_ms)

    def drop_all(self) -> None:
        """Remove all snapshots, because something was erased."""
        self._snapshots.drop_all()
