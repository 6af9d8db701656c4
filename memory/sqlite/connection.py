"""Opens a store file: from a template where it is new, migrated where it is old, refused where it
is not ours."""

import errno
import os
from contextlib import ExitStack, closing, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from memrelay.memory.disk import ROOM, ROOM_OR_DISK, make_folder, write_whole_file
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy, StoreDamaged
from memrelay.memory.sqlite.damage import (
    EMPTIED,
    STEPS,
    check,
    condemn,
    condemned_where_damaged,
    is_emptied,
    keep_log,
    needs_check,
)
from memrelay.memory.text.words import parts_of

APPLICATION_ID = 0x4D656D72  # "Memr", in the file's header
MAGIC, HEADER, ID_AT = b"SQLite format 3\0", 100, 68  # of that header
LOG_AT, WITH_LOG = (
    slice(18, 20),
    b"\2\2",
)  # in it: written and read with a log (WAL), sqlite.org/fileformat2.html

# Errors of SQLite and of the system, in our words: the first that fits. Which pass by themselves,
# and which do not.
WORDS: tuple[tuple[tuple[type[Exception], ...], type[Exception], str], ...] = (
    (
        (apsw.BusyError, apsw.LockedError),
        StoreBusy,
        "{path} is locked by another program; it is tried again",
    ),
    (
        (apsw.FullError, apsw.NoMemError),
        StoreBusy,
        f"{{path}}: {{error}}; {ROOM}, it is tried again",
    ),
    ((apsw.IOError,), StoreBusy, f"{{path}}: {{error}}; {ROOM_OR_DISK}; it is tried again"),
    (
        (NotADirectoryError, FileExistsError, PermissionError),
        StoreBroken,
        "{path} cannot be made: {error}; its folder must be a folder that this user may write to",
    ),
    ((OSError,), StoreBusy, "{path}: {error}; it is tried again"),
    (
        (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError),
        StoreDamaged,
        f"{{path}} is damaged: {{error}}; {STEPS}",
    ),
)
UNUSABLE = (
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
)  # for a reason that SQLite does not tell
HANDLES = 3  # of an open store: the file, its log, and what is shared of that


# a context like contextlib's; entered for each batch, where one of a generator costs four times as
# much
class translated:
    """Such errors of what is done to the store at `path` are raised in these words."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        """Of the store, or a name for several."""
        self._path = path

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises what an error means."""
        for kinds, meant, words in WORDS if error is not None else ():
            if isinstance(error, kinds):
                raise meant(words.format(path=self._path, error=error)) from error
        if isinstance(error, UNUSABLE):
            raise _unusable(self._path, error) from error


def _unusable(path: str, error: apsw.Error) -> MemoryFault:
    """Why SQLite cannot open a file or write to it, which it does not tell: found out by trying."""
    try:
        with ExitStack() as opened:
            for _ in range(
                HANDLES if os.path.exists(path) else 0
            ):  # it may be the name of what has no file
                opened.callback(os.close, os.open(path, os.O_RDWR))
        if not os.access(folder := os.path.dirname(path) or ".", os.W_OK):
            return StoreBroken(
                f"{path} cannot be used: {error}; this user must be able to write to its folder {folder}"
            )
    except OSError as cause:
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            return StoreBusy(
                f"{path}: {cause.strerror}; allow more (ulimit -n), or lower memory.open_files; it is tried again"
            )
        return StoreBroken(
            f"{path} cannot be used: {cause.strerror}; this user must be able to write to it"
        )
    return StoreBroken(
        f"{path} cannot be used: {error}; look at its folder, and at what stands beside it"
    )


def open_store_file(path: Path) -> apsw.Connection:
    """A connection to the store at `path`, which is made where there is none. Raises StoreBroken or
    StoreBusy.

    After an unclean end the file is checked; what is damaged is refused with StoreDamaged, and
    never made anew.
    """
    with translated(str(path)):
        suspect = needs_check(path)
        if not path.exists():
            _create(path)
        if is_emptied(path):
            raise condemn(path, EMPTIED)
        with ExitStack() as undo:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            undo.callback(connection.close)
            keep_log(connection, suspect)
            with condemned_where_damaged(path):
                _prepare(connection, path)
            if suspect:
                check(connection, path)
            undo.pop_all()
        return connection


def refuse_others(path: Path) -> None:
    """Raises StoreBroken where something is at `path` that does not begin as a store does: nothing
    is written beside it."""
    with translated(str(path)), suppress(FileNotFoundError):
        beginning = b"" if path.is_dir() else _beginning(path)
        if (
            not beginning.startswith(MAGIC)
            or int.from_bytes(beginning[ID_AT : ID_AT + 4]) != APPLICATION_ID
        ):
            raise StoreBroken(
                f"{path} is not a store of Memrelay, and is left as it is; name another file"
            )


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER)


def _prepare(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreBroken(
            f"{path} is not a store of Memrelay; move it away for a new one, or `memrelay restore` a backup"
        )
    connection.pragma("synchronous", "FULL")
    connection.pragma("temp_store", "MEMORY")
    connection.config(
        apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1
    )  # else a plan that may depend on a value is made anew for each
    _migrate(connection, path)


def _create(path: Path) -> None:
    make_folder(path.parent)
    with write_whole_file(path) as draft, draft.open("wb") as file:
        file.write(_template())
        file.flush()
        os.fsync(file.fileno())


@cache
def _template() -> bytes:
    """An empty store with today's schema: copying it costs a hundredth of making one. In memory,
    since a machine may have no
    folder for temporary files that can be written to.
    """
    with closing(apsw.Connection(":memory:")) as connection:
        connection.pragma("application_id", APPLICATION_ID)
        _migrate(connection, Path(":memory:"))
        made = bytearray(connection.serialize("main"))
    made[LOG_AT] = WITH_LOG  # which a database in memory cannot be told
    return bytes(made)


@cache
def migrations() -> tuple[str, ...]:
    """The SQL of each migration, in order; the first is number 1."""
    found = sorted(
        file.name
        for file in files("memrelay.memory.sqlite.migrations").iterdir()
        if file.name.endswith(".sql")
    )
    if [int(name[:4]) for name in found] != list(range(1, len(found) + 1)):
        raise StoreBroken(f"the migrations are not numbered from 0001 without a gap: {found}")
    return tuple(
        files("memrelay.memory.sqlite.migrations").joinpath(name).read_text() for name in found
    )


def _migrate(connection: apsw.Connection, path: Path) -> None:
    """Runs what the file has not seen yet, each migration in a transaction of its own."""
    version = connection.pragma("user_version")
    if version > len(migrations()):
        raise StoreBroken(
            f"{path} was written by a newer Memrelay (schema {version}); run that one"
        )
    for number in range(version + 1, len(migrations()) + 1):
        with connection:
            know_parts(connection)
            connection.execute(migrations()[number - 1])
            connection.pragma("user_version", number)


def know_parts(connection: apsw.Connection) -> None:
    """Gives SQL the function `parts_of`: what is indexed of a content beside itself."""

    def parts(*content: Any) -> str | None:
        return parts_of(str(content[0]))

    connection.create_scalar_function("parts_of", parts, 1, deterministic=True)


# How many transactions a store has committed: the bus is told, so that a store that lost some is
# found out.


class CommitCount:
    """Counts inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """As it was committed last."""
        self._connection = connection
        self._count, self._lineage = 0, ""
        self.reset()

    def reset(self) -> None:
        """As it was committed last."""
        self._count, self._lineage = self._connection.execute("SELECT n, lineage FROM commits").get

    @property
    def mark(self) -> str:
        """What the bus is told of the last commit: where the store comes from, and the number."""
        return f"{self._lineage}:{self._count}"

    def complete(self) -> None:
        """Within the transaction that is about to be committed."""
        self._connection.execute("UPDATE commits SET n = ?", (self._count + 1,))

    def committed(self) -> None:
        """That transaction is on disk."""
        self._count += 1


def lost_commits(told: str, found: str) -> int:
    """How many commits a store lacks that the bus was told of; both are marks, and "" is a bus that
    was told nothing.

    A store that was restored or salvaged since is taken as it is: whoever did that knew what was
    lost. A file that was made
    anew in the place of one that is gone comes from nowhere, and has lost everything.
    """
    lineage, _, count = told.rpartition(":")
    lineage_now, _, count_now = found.rpartition(":")
    if not told or (lineage_now and lineage_now != lineage):
        return 0
    return max(0, int(count) - (int(count_now) if lineage_now == lineage else 0))
