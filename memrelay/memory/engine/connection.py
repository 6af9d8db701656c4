"""Open store files: create new ones from a template, migrate old ones and reject other files."""

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from memrelay.memory.engine.damage import (
    EMPTIED,
    STEPS,
    check,
    is_emptied,
    keep_log,
    mark_damaged,
    mark_on_damage,
    needs_check,
)
from memrelay.memory.engine.disk import FREE_SPACE, ROOM_OR_DISK, make_folder, write_whole_file
from memrelay.memory.engine.idempotency import register_key_functions
from memrelay.memory.engine.lock_holder import describe_writer
from memrelay.memory.engine.models import MODELS
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy, StoreDamaged
from memrelay.memory.search.text.words import parts_of

# "Memr", in the header of the file.
APPLICATION_ID = 0x4D656D72
# The database header, sqlite.org/fileformat2.html: offsets and lengths in bytes.
MAGIC, HEADER_BYTES, ID_OFFSET = b"SQLite format 3\0", 100, 68
# The read and write versions, set to WAL mode.
JOURNAL_MODE_AT, WAL_MODE = slice(18, 20), b"\2\2"

# Errors of SQLite and the system, the exception to raise and its message. The first match counts.
# StoreBusy stands for transient errors.
TRANSLATIONS: tuple[tuple[tuple[type[Exception], ...], type[Exception], str], ...] = (
    (
        (apsw.BusyError, apsw.LockedError),
        StoreBusy,
        "{path} is locked by another program{writer}; it is retried",
    ),
    (
        (apsw.FullError, apsw.NoMemError),
        StoreBusy,
        f"{{path}}: {{error}}; {FREE_SPACE}, it is retried",
    ),
    ((apsw.IOError,), StoreBusy, f"{{path}}: {{error}}; {ROOM_OR_DISK}; it is retried"),
    (
        (NotADirectoryError, FileExistsError, PermissionError),
        StoreBroken,
        "{path} cannot be created: {error}; its parent must be a folder that this user can "
        "write to",
    ),
    ((OSError,), StoreBusy, "{path}: {error}; it is retried"),
    (
        (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError),
        StoreDamaged,
        f"{{path}} is damaged: {{error}}; {STEPS}",
    ),
)
# SQLite does not report the cause of these.
UNUSABLE = (
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
)
# File handles of an open store: the file, its log and the log's shared memory.
HANDLES = 3


# A class, because every batch enters it and a generator's context manager costs four times as much.
class translate_errors:
    """Context manager that raises errors of SQLite and the system as errors of memory.

    `path` is the store's path in messages, or a name for several stores.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """No setup is needed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for kinds, translation, message in TRANSLATIONS if error is not None else ():
            if isinstance(error, kinds):
                writer = describe_writer(self._path) if "{writer}" in message else ""
                text = message.format(path=self._path, error=error, writer=writer)
                raise translation(text) from error
        if isinstance(error, UNUSABLE):
            raise _find_cause(self._path, error) from error


def _find_cause(path: str, error: apsw.Error) -> MemoryFault:
    """Find out why SQLite cannot open or write a file, by trying it without SQLite."""
    try:
        with ExitStack() as opened:
            for _ in range(
                HANDLES if os.path.exists(path) else 0
                # `path` may be a name without a file.
            ):
                opened.callback(os.close, os.open(path, os.O_RDWR))
        if not os.access(folder := os.path.dirname(path) or ".", os.W_OK):
            return StoreBroken(
                f"{path} cannot be used: {error}; allow this user to write to its folder {folder}"
            )
    except OSError as cause:
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            return StoreBusy(
                f"{path}: {cause.strerror}; raise the limit (ulimit -n) or lower "
                "memory.open_files; it is retried"
            )
        return StoreBroken(
            f"{path} cannot be used: {cause.strerror}; allow this user to write to it"
        )
    for beside in filter(os.path.exists, _beside(path)):
        if not os.access(beside, os.W_OK):
            return StoreBroken(
                f"{path} cannot be used: {beside} is not writable; run `chmod u+w {beside}` as its "
                "owner, and do not delete it: it may hold the newest commits"
            )
    return StoreBroken(f"{path} cannot be used: {error}; check its folder and the files next to it")


def open_store_file(path: Path) -> apsw.Connection:
    """Open the store at `path`, creating it if it does not exist. Raises StoreBroken or StoreBusy.

    After an unclean shutdown the file is checked. A damaged file raises StoreDamaged and is never
    recreated.
    """
    with translate_errors(str(path)):
        is_suspect = needs_check(path)
        if not path.exists():
            _create(path)
        if is_emptied(path):
            raise mark_damaged(path, EMPTIED)
        _make_log_writable(path)
        with ExitStack() as undo:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            undo.callback(connection.close)
            keep_log(connection, is_suspect)
            with mark_on_damage(path):
                _prepare(connection, path)
            if is_suspect:
                check(connection, path)
            undo.pop_all()
        return connection


def _make_log_writable(path: Path) -> None:
    """Give the log and its index the mode of the store, if they lack the right to be written.

    SQLite creates them with the mode of the store, and they stay when a read-only store becomes
    writable again. Another user's files stay as they are, and the error names them.
    """
    for file in map(Path, _beside(str(path))):
        with suppress(FileNotFoundError, PermissionError):
            if not (mode := file.stat().st_mode) & stat.S_IWUSR:
                file.chmod(stat.S_IMODE(mode | path.stat().st_mode))


def _beside(path: str) -> tuple[str, str]:
    return f"{path}-wal", f"{path}-shm"


def refuse_others(path: Path) -> None:
    """Raise StoreBroken if the file at `path` is not a store. Nothing is written next to it."""
    with translate_errors(str(path)), suppress(FileNotFoundError):
        header = b"" if path.is_dir() else _read_header(path)
        if (
            not header.startswith(MAGIC)
            or int.from_bytes(header[ID_OFFSET : ID_OFFSET + 4]) != APPLICATION_ID
        ):
            raise StoreBroken(
                f"{path} is not a Memrelay store and was not changed; choose another file"
            )


def _read_header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER_BYTES)


def _prepare(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreBroken(
            f"{path} is not a Memrelay store; move it away to start a new store, or restore a "
            "backup with `memrelay restore`"
        )
    connection.pragma("synchronous", "FULL")
    connection.pragma("temp_store", "MEMORY")
    # Without it, plans that may depend on a value are prepared again for each value.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    _migrate(connection, path, len(migrations()))


def _create(path: Path) -> None:
    make_folder(path.parent)
    with write_whole_file(path) as draft, draft.open("wb") as file:
        file.write(make_template(len(migrations())))
        file.flush()
        os.fsync(file.fileno())


@cache
def make_template(schema: int) -> bytes:
    """Return the bytes of an empty store with the schema of that number.

    Copying it costs a hundredth of creating a store. It is built in memory, because a machine may
    have no writable temporary folder.
    """
    with closing(apsw.Connection(":memory:")) as connection:
        connection.pragma("application_id", APPLICATION_ID)
        _migrate(connection, Path(":memory:"), schema)
        image = bytearray(connection.serialize("main"))
    # A database in memory cannot be in WAL mode.
    image[JOURNAL_MODE_AT] = WAL_MODE
    return bytes(image)


@cache
def migrations() -> tuple[str, ...]:
    """Return the SQL of each migration in order, beginning with number 1.

    They are in the folder `migrations` of the engine, and of the model that a later one is for.
    """
    folders = [files(package).joinpath("migrations") for package in (__package__, *MODELS)]
    scripts = {
        file.name: file.read_text()
        for folder in folders
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    names = sorted(scripts)
    if [int(name[:4]) for name in names] != list(range(1, len(names) + 1)):
        raise StoreBroken(f"the migrations are not numbered from 0001 without a gap: {names}")
    return tuple(scripts[name] for name in names)


def _migrate(connection: apsw.Connection, path: Path, last: int) -> None:
    """Run the migrations up to `last` that the file lacks, each in its own transaction."""
    version = connection.pragma("user_version")
    if version > len(migrations()):
        raise StoreBroken(
            f"{path} was written by a newer Memrelay (schema {version}); run that one"
        )
    for number in range(version + 1, last + 1):
        with connection:
            register_parts_of(connection)
            register_key_functions(connection)
            connection.execute(migrations()[number - 1])
            connection.pragma("user_version", number)


def register_parts_of(connection: apsw.Connection) -> None:
    """Register the SQL function `parts_of`: the text that is indexed in addition to a content."""

    def parts(*content: Any) -> str | None:
        return parts_of(str(content[0]))

    connection.create_scalar_function("parts_of", parts, 1, deterministic=True)


# The commit count, which the bus also knows. The difference reveals a store that lost commits.


WRITE_COMMIT = "UPDATE commits SET n = ?, changes = ?"
LAST_MOMENT = "SELECT at_ms FROM moments ORDER BY change DESC LIMIT 1"
WRITE_MOMENT = "INSERT INTO moments VALUES (?, ?)"


def _host_clock() -> int:
    return time.time_ns() // 1_000_000


def commit_mark(connection: apsw.Connection) -> str:
    """Return the mark of the last commit of a store for the bus: its lineage and the number."""
    count, lineage = connection.execute("SELECT n, lineage FROM commits").get
    return f"{lineage}:{count}"


class CommitCount:
    """The number of commits of a store, updated inside its open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # The time of a commit, Unix ms.
        self.clock: Callable[[], int] = _host_clock
        self._count, self._lineage = 0, ""
        # The number of the last change and the time of its commit, and those of the open one.
        self._last = self._next = (0, 0)
        # The number of the last committed change.
        self.changes = 0
        self.reset()

    def reset(self) -> None:
        """Read the committed value again."""
        found = self._connection.execute("SELECT n, lineage, changes FROM commits").get
        self._count, self._lineage, changes = found
        self._last = self._next = changes, self._connection.execute(LAST_MOMENT).get or 0
        self.changes = changes

    @property
    def mark(self) -> str:
        """Return the mark of the last commit for the bus: the lineage of the store
        and the number.
        """
        return f"{self._lineage}:{self._count}"

    def complete(self, changes: int) -> None:
        """Write the next number in the transaction that is about to be committed, and the number
        of its last change.
        """
        self._connection.execute(WRITE_COMMIT, (self._count + 1, changes))
        last, at_ms = self._last
        if changes > last:
            self._next = changes, max(self.clock(), at_ms)
            self._connection.execute(WRITE_MOMENT, self._next)

    def committed(self) -> None:
        """Count that transaction, which is now on disk."""
        self._count += 1
        self._last = self._next
        self.changes = self._last[0]


def lost_commits(acknowledged: str, found: str) -> int:
    """Return how many commits that the bus acknowledged are missing in the store.

    Both arguments are marks. "" means that the bus knows none. A store that was restored or
    salvaged since has another lineage and counts as complete. A file recreated in place of a lost
    one has no lineage and lost everything.
    """
    lineage, _, count = acknowledged.rpartition(":")
    lineage_now, _, count_now = found.rpartition(":")
    if not acknowledged or (lineage_now and lineage_now != lineage):
        return 0
    return max(0, int(count) - (int(count_now) if lineage_now == lineage else 0))
