"""The journals of the stores of one database thread.

The file of a store is a local copy. Each commit is in PostgreSQL before it is in the file and
before its inputs are acknowledged, so another host can take a store over at any time.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import apsw

from memrelay.logs import get_logger
from memrelay.memory.engine.connection import migrations, open_store_file, translate_errors
from memrelay.memory.engine.copy import FOR_SNAPSHOT, temporary_copy
from memrelay.memory.engine.damage import needs_check
from memrelay.memory.engine.journal.copies import catch_up, make_copy, read_parts, read_state
from memrelay.memory.engine.journal.patches import Patch, Position, Recorder, write_position
from memrelay.memory.engine.journal.postgres import (
    KEY_BYTES,
    Commit,
    Entry,
    PostgresJournals,
    Upload,
)
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.errors import BadBackup, MemoryFault, StoreBroken, StoreBusy, StoreFenced

if TYPE_CHECKING:
    from memrelay.memory.engine.journal.projection import Projector

log = get_logger(__name__)
# A snapshot is made when the patches after the last one have more bytes than this and than half of
# the file.
LEAST_BYTES = 64 << 20
# The position of a file from before the journal, until PostgreSQL has it.
UPLOADING = Position(0, 0, "")

Append = Callable[[Sequence["Link"]], None]


class Link:
    """Records each transaction of a store, and appends it to the journal before its commit.

    `entry` is that of the store, whose file is up to date. Without `is_owner`, it is only read.
    """

    def __init__(self, store: str, entry: Entry, append: Append, *, is_owner: bool) -> None:
        self.store, self.epoch = store, entry.epoch if is_owner else 0
        # The size of the patches after the last snapshot.
        self.unsaved = entry.bytes
        self._position, self._schema, self._append = entry.position, entry.schema, append
        self._next: Position | None = None
        # Whether the file lacks a commit that the journal may have: it must be opened again.
        self.is_outdated = False
        self._connection: apsw.Connection
        self._recorder: Recorder

    def attach(self, connection: apsw.Connection) -> None:
        """Use the connection of the store. Its commits need no fsync: the journal has them."""
        connection.pragma("synchronous", "NORMAL")
        self._connection, self._recorder = connection, Recorder(connection)

    @property
    def is_appended(self) -> bool:
        """Whether the journal has the open transaction."""
        return self._next is not None

    def begin(self) -> None:
        """Record the transaction that is about to begin. Raises StoreBusy for an outdated file."""
        if self.is_outdated:
            raise StoreBusy(f"{self.store} waits for PostgreSQL (storage.url); it is retried")
        self._recorder.begin()

    def append(self) -> None:
        """Append the open transaction, which is complete. Raises StoreBusy and StoreFenced."""
        self._append([self])

    def pack(self) -> Commit:
        """Return the open transaction as a commit."""
        if not self.epoch:
            raise StoreFenced(self.store, 0)
        generation, n, _ = self._position
        self._next = Position(generation, n + 1, secrets.token_hex(8))
        write_position(self._connection, self._next)
        patch = Patch(n + 1, self._next.mark, self._schema, self._recorder.changes())
        return Commit(self.store, self.epoch, generation, patch)

    def committed(self) -> None:
        """Note that the file has the appended transaction."""
        if self._next is not None:
            self._position, self._next = self._next, None
        self._recorder.end()

    def rolled_back(self) -> None:
        """Forget the open transaction."""
        self.is_outdated |= self.is_appended
        self._next = None
        self._recorder.end()


class Journal:
    """The journals at `url` of the stores below `root`. Used by one thread.

    `projector` keeps readable tables.
    """

    def __init__(self, root: Path, url: str, projector: "Projector | None" = None) -> None:
        self._root, self._url, self._journals = root, url, PostgresJournals(url)
        self._projector = projector
        # By store: the epoch that the bus has issued, and that of PostgreSQL.
        self._epochs: dict[str, tuple[int, int]] = {}
        self._uploads: dict[str, Thread] = {}

    def close(self) -> None:
        """Close the connection. It is opened again when it is needed."""
        self._journals.close()

    def names(self, folder: str) -> list[str]:
        """Return the stores with a journal below a folder of the memory root. Raises StoreBusy."""
        return self._journals.names(folder)

    def list(self) -> list[str]:
        """Return all stores with a journal. Raises StoreBusy."""
        return sorted(self._journals.names(""))

    def exists(self, memory_id: str) -> bool:
        """Return whether a store has a journal. Raises StoreBusy."""
        return self._journals.look(memory_id) is not None

    def copy(self, memory_id: str, target: Path) -> None:
        """Write a new file with all commits of a store, which another program may own.

        Raises BadBackup: the store has no journal. Raises StoreBusy and StoreBroken.
        """
        entry = self._journals.look(memory_id)
        if entry is None:
            raise BadBackup(f"{memory_id} has no journal: nothing was stored yet")
        make_copy(self._journals, memory_id, target, entry)

    def put(self, memory_id: str) -> None:
        """Make the local file of a store the content of a new generation.

        An owner on another host has to build its file again. Raises StoreBusy and StoreBroken.
        """
        self.replace(memory_id, self._journals.seize(memory_id, len(migrations())).epoch)

    def open(self, memory_id: str, lease: int) -> Link | None:
        """Bring the file of a store up to date, and return its link.

        `lease` is the fencing epoch of the owner on the bus, 0 for a store that is only read. None
        for such a store without a journal. A store that has none gets one. Raises StoreBusy,
        StoreBroken and StoreFenced.
        """
        path = store_path(self._root, memory_id)
        needs_check(path)
        entry = self._find(memory_id, lease)
        if entry is None:
            return None
        if path.exists():
            entry = self._use_file(memory_id, path, entry)
        else:
            make_copy(self._journals, memory_id, path, entry)
        if lease and entry.schema < len(migrations()):
            entry = self.replace(memory_id, entry.epoch)
        return Link(memory_id, entry, self.append, is_owner=bool(lease))

    def _find(self, memory_id: str, lease: int) -> Entry | None:
        if not lease:
            return self._journals.look(memory_id)
        known_lease, known = self._epochs.get(memory_id, (0, 0))
        entry = self._journals.take_over(
            memory_id, lease, known if known_lease == lease else 0, len(migrations())
        )
        self._epochs[memory_id] = lease, entry.epoch
        if self._projector is not None:
            self._projector.wake(memory_id, entry.epoch)
        return entry

    def _use_file(self, memory_id: str, path: Path, entry: Entry) -> Entry:
        found = read_state(path).position
        if entry.n == 0 and found in (None, UPLOADING):
            _set_position(path, UPLOADING)
            return self.replace(memory_id, entry.epoch)
        if found is None:
            raise StoreBroken(
                f"{path} is not the copy of the journal in PostgreSQL; move it away to use the "
                "journal, or import it with `memrelay import` afterwards"
            )
        catch_up(self._journals, memory_id, path, entry, found)
        return entry

    def append(self, links: Sequence[Link]) -> None:
        """Append the open transactions of stores, all or none.

        Raises StoreBusy and StoreFenced, after which the stores must be opened again.
        """
        sizes = self._journals.append([link.pack() for link in links])
        for link, size in zip(links, sizes, strict=True):
            if self._projector is not None:
                self._projector.wake(link.store, link.epoch)
            link.unsaved += size
            if link.unsaved > LEAST_BYTES:
                self._save(link)

    def _save(self, link: Link) -> None:
        """Start a snapshot if the patches are large compared with the file."""
        path, running = store_path(self._root, link.store), self._uploads.get(link.store)
        if link.unsaved < path.stat().st_size // 2 or (running and running.is_alive()):
            return
        link.unsaved = 0
        thread = Thread(
            target=_save_snapshot,
            args=(self._url, self._root, link.store, link.epoch),
            name=f"snapshot-{link.store}",
            daemon=True,
        )
        self._uploads[link.store] = thread
        thread.start()

    def rewrite(self, memory_id: str) -> None:
        """Remove what was deleted in a store, which no program has open, from PostgreSQL.

        Raises StoreFenced, StoreBusy and StoreBroken.
        """
        entry = self.replace(memory_id)
        if self._projector is not None:
            self._projector.rewrite(memory_id, entry.epoch)

    def replace(self, memory_id: str, epoch: int = 0) -> Entry:
        """Make the file of a store, which no program has open, the content of a new generation.

        The earlier content and its key are destroyed in PostgreSQL. `epoch` is that of the owner; 0
        means the one that this journal has. Returns the new entry. Raises StoreFenced, StoreBusy
        and StoreBroken.
        """
        epoch = epoch or self._epochs[memory_id][1]
        path, key = store_path(self._root, memory_id), secrets.token_bytes(KEY_BYTES)
        open_store_file(path).close()
        entry = self._journals.look(memory_id)
        if entry is None:
            raise StoreBroken(f"{memory_id} has no journal")
        with temporary_copy(path, self._root, FOR_SNAPSHOT) as copy:
            upload = self._journals.upload(memory_id, (0, key), read_parts(copy))
        at = Position(entry.generation + 1, entry.n + 1, secrets.token_hex(8))
        schema = len(migrations())
        self._journals.begin_generation(Upload(memory_id, epoch, upload, at, schema), key)
        _set_position(path, at)
        return Entry(epoch, *at, schema, at.n, at.mark, upload, 0)


def _set_position(path: Path, at: Position) -> None:
    with translate_errors(str(path)), closing(open_store_file(path)) as connection:
        write_position(connection, at)


def _save_snapshot(url: str, root: Path, memory_id: str, epoch: int) -> None:
    """Upload a copy of a store that is in use. A failure is logged, and a later one is complete."""
    try:
        with (
            closing(PostgresJournals(url)) as journals,
            temporary_copy(store_path(root, memory_id), root, FOR_SNAPSHOT) as copy,
        ):
            position, schema = read_state(copy)
            if position is not None:
                upload = journals.upload(memory_id, (position.generation, b""), read_parts(copy))
                made = Upload(memory_id, epoch, upload, position, schema)
                journals.complete_snapshot(made)
    except (MemoryFault, OSError) as error:
        log.warning("snapshot_failed", memory_id=memory_id, reason=str(error))
