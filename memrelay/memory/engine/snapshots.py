"""Copies of stores as they were at a time, in a folder that ends with the process.

They are for reads, and belong to one thread. A copy of the file is taken back (as_of.py), so
searches run on it as they ran on the store.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from memrelay.memory.engine.as_of import PastState, take_back
from memrelay.memory.engine.copy import FOR_PAST, copy_database, open_source, temporary_path
from memrelay.memory.engine.models import list_rights, models
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import StoreBusy
from memrelay.memory.search.pool import SemanticResources


class SnapshotKey(NamedTuple):
    """A store, and the number of the last change in its snapshot."""

    memory_id: str
    change: int


class Snapshot(NamedTuple):
    """A store as it was. `incomplete` is the number of records whose state then is lost."""

    store: Store
    state: PastState
    incomplete: int


class Snapshots:
    """Makes snapshots of stores, and keeps those of up to `most_bytes`, the least recently used
    are removed first.

    The last one is kept whatever its size.
    """

    def __init__(
        self, root: Path, most_bytes: int, meaning: SemanticResources | None = None
    ) -> None:
        self._root, self._most_bytes, self._meaning = root, most_bytes, meaning
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._kept: OrderedDict[SnapshotKey, tuple[Snapshot, int]] = OrderedDict()
        self._count = 0
        # The last commit of the store whose rights a snapshot has.
        self._renewed: dict[SnapshotKey, int] = {}

    def find(self, key: SnapshotKey) -> Snapshot | None:
        """Return a snapshot, None if it is not made."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def make(self, memory_id: str, source: Path | None, state: PastState) -> Snapshot:
        """Return the snapshot of the store file `source` after a change, and make it if needed.
        None is a store that does not exist.

        Raises StoreBusy, StoreBroken and StoreDamaged.
        """
        key = SnapshotKey(memory_id, state.change)
        if (found := self.find(key)) is not None:
            return found
        path = self._new_path()
        with ExitStack() as undo:
            undo.enter_context(_report_disk(self._root))
            undo.callback(_remove, path)
            if source is not None:
                copy_database(source, path)
                release_copy(path)
            store = Store(memory_id, path, self._meaning)
            undo.callback(store.close)
            # After a crash, the copy is removed.
            store.connection.pragma("synchronous", "OFF")
            incomplete = take_back(store, state.change)
            store.checkpoint()
            undo.pop_all()
        snapshot = Snapshot(store, state, incomplete)
        self._kept[key] = snapshot, path.stat().st_size
        while len(self._kept) > 1 and self._nbytes > self._most_bytes:
            self._remove(next(iter(self._kept)))
        return snapshot

    def renew_rights(self, key: SnapshotKey, source: Path, now_ms: int) -> None:
        """Give a snapshot the rights of the store file `source`, because no right of the past opens
        anything. `now_ms` is today, Unix ms.
        """
        connection, rights = self._kept[key][0].store.connection, list_rights()
        with open_source(source) as today, connection:
            count = today.execute("SELECT n FROM commits").get
            if count != self._renewed.get(key):
                for table in rights:
                    connection.execute(f"DELETE FROM {table}")
                    rows = today.execute(f"SELECT * FROM {table}").fetchall()
                    holes = ", ".join("?" * len(rows[0])) if rows else ""
                    connection.executemany(f"INSERT INTO {table} VALUES ({holes})", rows)
                for hidden in [one.internal for one in models().values() if one.internal]:
                    internal = "UPDATE records SET in_context = 0 WHERE guid = ? AND in_context"
                    connection.executemany(internal, today.execute(hidden).fetchall())
                self._renewed[key] = count
            for table, expiry in rights.items():
                if expiry:
                    connection.execute(f"DELETE FROM {table} WHERE {expiry} <= ?", (now_ms,))

    @property
    def _nbytes(self) -> int:
        return sum(size for _, size in self._kept.values())

    def _new_path(self) -> Path:
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_path(self._root, FOR_PAST)).parent
        self._count += 1
        return self._folder / f"{self._count}.db"

    def _remove(self, key: SnapshotKey) -> None:
        snapshot, _ = self._kept.pop(key)
        self._renewed.pop(key, None)
        snapshot.store.close()
        _remove(Path(snapshot.store.path))

    def drop_all(self) -> None:
        """Remove all snapshots."""
        for key in list(self._kept):
            self._remove(key)

    def close(self) -> None:
        """Remove all snapshots and the folder."""
        self.drop_all()
        self._stack.close()
        self._folder = None


@contextmanager
def _report_disk(root: Path) -> Iterator[None]:
    """Raise StoreBusy for a full disk. Nobody tries again by itself."""
    try:
        yield
    except (apsw.FullError, apsw.IOError, OSError) as error:
        raise StoreBusy(
            f"the snapshot cannot be written below {root}: {error}; make room there, and try again"
        ) from error


def release_copy(path: Path) -> None:
    """Separate a copy from its journal, so that it can be opened alone."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("DELETE FROM journal")
    connection.close()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
