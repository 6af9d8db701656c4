"""Record the changes of a store as patches, and apply them to another copy of its file.

A patch is a patchset of SQLite's session extension (sqlite.org/sessionintro.html). It has the
changed rows of all tables, except those that belong to one file. Index rows are not recorded: they
are made again from the changed records.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import apsw

from memrelay.memory.errors import StoreBroken

# They belong to one file: the owner's fence, and the position in the journal.
LOCAL = {"fence", "journal"}
# The tables in which FTS5 keeps an index.
INDEX_TABLES = tuple(
    f"{index}_{part}"
    for index in ("records_fts", "parts_fts")
    for part in ("config", "data", "docsize", "idx")
)
NOT_RECORDED = LOCAL.union(INDEX_TABLES)
OUTDATED = "SELECT row, content, parts FROM records WHERE row = ?"
DELETE_CONTENT = "INSERT INTO records_fts(records_fts, rowid, content) VALUES ('delete', ?, ?)"
DELETE_PARTS = "INSERT INTO parts_fts(parts_fts, rowid, content, parts) VALUES ('delete', ?, ?, ?)"
INSERT_CONTENT = (
    "INSERT INTO records_fts(rowid, content) SELECT row, content FROM records WHERE row = ?"
)
INSERT_PARTS = (
    "INSERT INTO parts_fts(rowid, content, parts) "
    "SELECT row, content, parts FROM records WHERE row = ? AND parts IS NOT NULL"
)
UNIQUE_INDEXES = "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'CREATE UNIQUE INDEX%'"
make_builder: Callable[[], apsw.ChangesetBuilder] = apsw.ChangesetBuilder
# Patches that are applied as one.
TOGETHER = 256
SET_POSITION = "INSERT OR REPLACE INTO journal VALUES (1, ?, ?, ?)"


class Position(NamedTuple):
    """The last entry of a journal that a file contains.

    Each generation of a journal has its own key. `n` counts the commits, and `mark` is a random
    text that differs for each of them.
    """

    generation: int
    n: int
    mark: str


class Patch(NamedTuple):
    """The changes of one commit. `schema` is the number of the last migration of its file."""

    n: int
    mark: str
    schema: int
    changes: bytes


class Recorder:
    """Records the changes of one transaction at a time."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._session: apsw.Session | None = None

    def begin(self) -> None:
        """Record changes from now on."""
        self.end()
        self._session = apsw.Session(self._connection, "main")
        self._session.table_filter(_is_recorded)
        self._session.attach()

    def changes(self) -> bytes:
        """Return the recorded changes."""
        return b"" if self._session is None else self._session.patchset()

    def end(self) -> None:
        """Forget the recorded changes."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _is_recorded(table: str) -> bool:
    return table not in NOT_RECORDED


def read_position(connection: apsw.Connection) -> Position | None:
    """Return the position of a file; None for one without a journal."""
    if not connection.table_exists("main", "journal"):
        return None
    found = connection.execute("SELECT generation, n, mark FROM journal").fetchone()
    return Position._make(found) if found else None


def write_position(connection: apsw.Connection, position: Position) -> None:
    """Set the position of a file."""
    connection.execute(SET_POSITION, position)


def apply_patches(
    connection: apsw.Connection, path: Path, generation: int, patches: Iterable[Patch]
) -> None:
    """Apply patches, which follow the position of the file, in one transaction.

    Raises StoreBroken: a patch has another schema than the file, or does not fit to its rows.
    """
    connection.transaction_mode = "IMMEDIATE"
    index, left = _TouchedRecords(connection), iter(patches)
    # The rows that triggers change are in the patches.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        with connection:
            while group := list(islice(left, TOGETHER)):
                _check_order(connection, path, group)
                index.note(group)
                _apply_group(connection, path, group)
                write_position(connection, Position(generation, group[-1].n, group[-1].mark))
            index.rebuild()
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


def _check_order(connection: apsw.Connection, path: Path, group: Sequence[Patch]) -> None:
    position, schema = read_position(connection), connection.pragma("user_version")
    if position is None or [one.n for one in group] != list(
        range(position.n + 1, position.n + 1 + len(group))
    ):
        raise StoreBroken(f"{path} was changed while the commits of its journal were applied")
    for patch in group:
        if patch.schema != schema:
            raise StoreBroken(
                f"{path} has schema {schema}, and its journal continues with schema {patch.schema}"
            )


def _apply_group(connection: apsw.Connection, path: Path, group: Sequence[Patch]) -> None:
    """Apply patches as one, which takes a third of the time, or else one by one."""
    builder = make_builder()
    for patch in group:
        builder.add(patch.changes)
    try:
        apsw.Changeset.apply(builder.output(), connection)
    except apsw.AbortError:
        for patch in group:
            _apply(connection, path, patch)


def _apply(connection: apsw.Connection, path: Path, patch: Patch) -> None:
    """Apply a patch. Its rows may be in another order than they were written, so rows that swap
    their unique values need a second try without the indexes.
    """
    indexes = connection.execute(UNIQUE_INDEXES).fetchall()
    try:
        with suppress(apsw.AbortError):
            apsw.Changeset.apply(patch.changes, connection)
            return
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        apsw.Changeset.apply(patch.changes, connection)
        for _, sql in indexes:
            connection.execute(str(sql))
    except (apsw.AbortError, apsw.ConstraintError) as error:
        raise StoreBroken(f"commit {patch.n} of the journal does not fit to {path}") from error


class _TouchedRecords:
    """The records that patches change, with the texts that the index has of them."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._touched: set[int] = set()
        self._outdated: list[tuple[int, str, str | None]] = []
        names = [row[1] for row in connection.execute("PRAGMA table_info(records)")]
        self._texts = names.index("content"), names.index("parts")

    def note(self, group: Sequence[Patch]) -> None:
        """Note the records of patches that are about to be applied."""
        new = {row for patch in group for row in self._rows(patch.changes)} - self._touched
        self._touched |= new
        for row in new:
            self._outdated += self._connection.execute(OUTDATED, (row,))

    def _rows(self, changes: bytes) -> Iterator[int]:
        for change in apsw.Changeset.iter(changes):
            if change.name != "records":
                continue
            new = change.new or ()
            if change.op != "UPDATE" or any(new[at] is not apsw.no_change for at in self._texts):
                yield _key_of(new if change.op == "INSERT" else change.old or ())

    def rebuild(self) -> None:
        """Index the records again. FTS5 needs deletions first, each in ascending order."""
        run_many = self._connection.executemany
        outdated = sorted(self._outdated)
        run_many(DELETE_CONTENT, [old[:2] for old in outdated])
        run_many(DELETE_PARTS, [old for old in outdated if old[2] is not None])
        rows = [(row,) for row in sorted(self._touched)]
        run_many(INSERT_CONTENT, rows)
        run_many(INSERT_PARTS, rows)


def _key_of(values: Sequence[object]) -> int:
    row = values[0]
    assert isinstance(row, int)
    return row
