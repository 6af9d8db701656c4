"""Copies a database file while others use it, and inspects such a copy wholly."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from memrelay.memory.errors import StoreBusy, StoreDamaged
from memrelay.memory.records.record import checksum_of_bytes
from memrelay.memory.sqlite.connection import APPLICATION_ID, CommitCount, translated
from memrelay.memory.sqlite.damage import (
    EMPTIED,
    STEPS,
    disk_error,
    is_emptied,
    keep_log,
    structural_faults,
    unread,
)

BUSY_MS = 10_000
FOR_SCRUB, FOR_EXPORT = SORTS = (
    ".scrub-",
    ".export-",
)  # what copies are for: how their folders begin
CHECKSUMS = 4  # the migration by which records have them
VERSIONS = 8  # the one by which earlier states are kept
PLAIN = "key IS NULL AND owner IS NULL AND data IS NULL AND NOT in_context"
FURTHER = (
    "char(0) || coalesce(key, '') || char(0) || coalesce(owner, '') || char(0) || coalesce(data, '') || char(0) "
    "|| in_context"
)
NAMES = (
    "CAST(scope || char(0) || kind || char(0) || source || char(0) || tags || char(0) || guid "
    f"|| CASE WHEN {PLAIN} THEN '' ELSE {FURTHER} END AS BLOB)"
)
TEXTS = f"SELECT CAST(guid AS BLOB), {NAMES}, CAST(content AS BLOB), crc FROM "
ROWS, STATES = (
    f"{TEXTS} records ORDER BY row",
    f"{TEXTS} versions WHERE content IS NOT NULL ORDER BY n",
)


class Inspection(NamedTuple):
    """What a store was found to be."""

    records: int
    unknown: int  # records from before there were checksums
    mark: str  # its last commit
    faults: list[str]  # [] for none
    guids: list[str]  # of records whose text is not what was written


def copy_database(source: Path, target: Path) -> None:
    """One moment of `source`, to a new file. In one step, so that it ends however fast others
    write; nobody waits for it."""
    with _looked_at(source) as reading, closing(apsw.Connection(str(target))) as writing:
        if not _copy_pages(reading, writing, source, target):
            raise StoreBusy(f"{source} could not be copied; try again")


def _copy_pages(
    reading: apsw.Connection, writing: apsw.Connection, source: Path, target: Path
) -> bool:
    """Whether all were, from one to the other. Raises StoreBusy for the disk at fault, which SQLite
    tells of neither."""
    try:
        with writing.backup("main", reading, "main") as backup:
            backup.step(-1)
        return backup.done
    except (apsw.FullError, apsw.IOError) as error:
        if (unreadable := disk_error(source)) is not None:
            raise StoreBusy(unread(source, unreadable)) from error
        disk = "" if isinstance(error, apsw.FullError) else " or look at its disk"
        raise StoreBusy(
            f"{source} could not be copied to {target.parent}: make room there{disk}, and try again"
        ) from error


@contextmanager
def copied(source: Path, root: Path, sort: str) -> Iterator[Path]:
    """A copy in a folder of its own in the memory root, for as long as it is looked at. `sort` is
    one of SORTS.

    Raises StoreDamaged of what was emptied, and StoreBusy.
    """
    clear_copies(root)
    if is_emptied(source):
        raise StoreDamaged(f"{source} is damaged: {EMPTIED}; {STEPS}")
    with tempfile.TemporaryDirectory(dir=root, prefix=sort) as folder, _held(Path(folder)):
        copy = Path(folder, "copy")
        copy_database(source, copy)
        yield copy


def clear_copies(root: Path) -> None:
    """Removes what programs have left that were killed: nobody holds it."""
    for folder in [found for sort in SORTS for found in root.glob(f"{sort}*")]:
        with suppress(OSError), _held(folder):
            shutil.rmtree(folder)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Raises OSError where another program holds it, or it is gone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def copy_over(source: Path, target: Path) -> None:
    """Gives `target`, which others may have open, the content of `source`, as one change."""
    with (
        translated(str(target)),
        closing(apsw.Connection(str(source))) as reading,
        closing(apsw.Connection(str(target))) as writing,
    ):
        writing.set_busy_timeout(BUSY_MS)
        _copy_pages(reading, writing, source, target)


@contextmanager
def _looked_at(path: Path) -> Iterator[apsw.Connection]:
    """A connection that leaves behind what it found: a log that tells of a crash too."""
    with translated(str(path)):
        log = Path(f"{path}-wal")
        crashed = log.exists() and log.stat().st_size > 0
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            keep_log(connection, crashed)
            yield connection


def inspect_system(path: Path) -> list[str]:
    """What is wrong with a copy of the control plane."""
    with translated(str(path)), closing(apsw.Connection(str(path))) as connection:
        if faults := structural_faults(connection, pragma="integrity_check"):
            return faults
        is_ours = (
            connection.execute(
                "SELECT count(*) FROM sqlite_schema WHERE name IN ('bundles', 'pipelines')"
            ).get
            == 2
        )
        return [] if is_ours else ["it has no pipelines of Memrelay"]


def inspect(path: Path) -> Inspection:
    """All of a copy that nobody else uses: pages, rows, checksums, and the index against the
    text."""
    with (
        translated(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        faults = structural_faults(connection, pragma="integrity_check")
        if not faults and connection.pragma("application_id") != APPLICATION_ID:
            is_another = connection.execute("SELECT count(*) FROM sqlite_schema").get
            faults = ["it is no store of Memrelay; move it away" if is_another else EMPTIED]
        if faults:
            return Inspection(0, 0, "", faults, [])
        if connection.pragma("user_version") < CHECKSUMS:
            records = connection.execute("SELECT count(*) FROM records").get
            return Inspection(records, records, "", _index_faults(connection), [])
        records, unknown, guids = _compare(connection, ROWS)
        if connection.pragma("user_version") >= VERSIONS:
            guids = list(dict.fromkeys([*guids, *_compare(connection, STATES)[2]]))
        return Inspection(
            records,
            unknown,
            CommitCount(connection).mark,
            _told(guids) + _index_faults(connection),
            guids,
        )


def check_texts(connection: apsw.Connection, memory_id: str) -> None:
    """All records and earlier states of a copy of that store. Raises StoreDamaged where one is not
    what was written."""
    if told := _told([*_compare(connection, ROWS)[2], *_compare(connection, STATES)[2]]):
        raise StoreDamaged(
            f"{memory_id} is damaged: {told[0]}; `memrelay scrub` names it, and what to do"
        )


def accept_texts(path: Path) -> None:
    """Records and earlier states that are not what was written have checksums of what they are,
    from now on."""
    with (
        translated(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.create_scalar_function("crc_of", _crc_of, 2, deterministic=True)
        for table in ("records", "versions"):
            made = f"crc_of({NAMES}, CAST(content AS BLOB))"
            connection.execute(
                f"UPDATE {table} SET crc = {made} WHERE content IS NOT NULL AND crc <> {made}"
            )


def _crc_of(*texts: Any) -> int:
    return checksum_of_bytes(*texts)


def _told(guids: list[str]) -> list[str]:
    """As a fault; [] where there are none."""
    count = len(set(guids))
    return (
        [f"{count} {'record is' if count == 1 else 'records are'} not what was written"]
        if count
        else []
    )


def _compare(connection: apsw.Connection, rows: str) -> tuple[int, int, list[str]]:
    """(records, those without a checksum, guids of those whose checksum is another)."""
    records, unknown, guids = 0, 0, []
    for guid, names, content, crc in connection.execute(rows):
        records += 1
        if crc is None:
            unknown += 1
        elif checksum_of_bytes(names, content) != crc:
            guids.append(guid.decode(errors="replace"))
    return records, unknown, guids


def _index_faults(connection: apsw.Connection) -> list[str]:
    """The full-text indexes against the text that they are of: the one check that SQLite does not
    make by itself."""
    try:
        for (index,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%fts5%'"
        ).fetchall():
            connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    except apsw.CorruptError:
        return ["the full-text index is not that of the records"]
    return []
