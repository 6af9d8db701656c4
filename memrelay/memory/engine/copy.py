"""Copy a database file while others use it, and inspect such a copy."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from memrelay.memory.engine.connection import (
    APPLICATION_ID,
    commit_mark,
    migrations,
    translate_errors,
)
from memrelay.memory.engine.damage import (
    EMPTIED,
    STEPS,
    disk_error,
    is_emptied,
    keep_log,
    structural_faults,
    unreadable_message,
)
from memrelay.memory.errors import StoreBusy, StoreDamaged
from memrelay.memory.records.record import checksum_of_bytes

BUSY_MS = 10_000
# Prefixes of the folders of copies, by purpose.
FOR_SCRUB, FOR_EXPORT, FOR_SNAPSHOT, FOR_PAST, FOR_REHEARSAL = PREFIXES = (
    ".scrub-",
    ".export-",
    ".snapshot-",
    ".asof-",
    ".rehearsal-",
)
# The folder of the memory root with the reports of rehearsals, which quote records, and how long
# they are kept.
REPORTS, REPORT_S = ".rehearsals", 7 * 86_400
# Schema version since which records have checksums.
CHECKSUMS_SINCE = 4
# Schema version since which earlier versions of records are kept.
VERSIONS_SINCE = 8
# The texts of a row that the checksum covers, in the order of `records.record.names_of`.
PLAIN = "key IS NULL AND owner IS NULL AND data IS NULL AND NOT in_context"
EXTRAS = (
    "char(0) || coalesce(key, '') || char(0) || coalesce(owner, '') "
    "|| char(0) || coalesce(data, '') || char(0) || in_context"
)
NAMES = (
    "CAST(scope || char(0) || kind || char(0) || source || char(0) || tags || char(0) || guid "
    f"|| CASE WHEN {PLAIN} THEN '' ELSE {EXTRAS} END AS BLOB)"
)
TEXTS = f"SELECT CAST(guid AS BLOB), {NAMES}, CAST(content AS BLOB), crc FROM "
CURRENT_TEXTS, VERSION_TEXTS = (
    f"{TEXTS} records ORDER BY row",
    f"{TEXTS} versions WHERE content IS NOT NULL ORDER BY n",
)


class Inspection(NamedTuple):
    """The result of inspecting a store."""

    records: int
    # Number of records from before checksums existed.
    unknown: int
    # Mark of the last commit.
    mark: str
    # [] for none.
    faults: list[str]
    # Records whose text differs from what was written.
    guids: list[str]


def copy_database(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of `source` to a new file.

    It runs in one step, so it ends however fast others write. It blocks nobody.
    """
    with open_source(source) as reading, closing(apsw.Connection(str(target))) as writing:
        if not _copy_pages(reading, writing, source, target):
            raise StoreBusy(f"{source} could not be copied; try again")


def _copy_pages(
    reading: apsw.Connection, writing: apsw.Connection, source: Path, target: Path
) -> bool:
    """Copy all pages and return whether that succeeded.

    Raises StoreBusy that names the disk at fault, and StoreDamaged with the damage, neither of
    which SQLite reports.
    """
    try:
        with writing.backup("main", reading, "main") as backup:
            backup.step(-1)
        return backup.done
    except (apsw.CorruptError, apsw.NotADBError) as error:
        damaged, faults = source, structural_faults(reading)
        if not faults:
            damaged, faults = target, structural_faults(writing) or ["it cannot be written"]
        raise StoreDamaged(f"{damaged} is damaged: {faults[0]}; {STEPS}") from error
    except (apsw.FullError, apsw.IOError) as error:
        if (unreadable := disk_error(source)) is not None:
            raise StoreBusy(unreadable_message(source, unreadable)) from error
        disk = "" if isinstance(error, apsw.FullError) else " or look at its disk"
        raise StoreBusy(
            f"{source} could not be copied to {target.parent}: make room there{disk}, and try again"
        ) from error


@contextmanager
def temporary_copy(source: Path, root: Path, prefix: str) -> Iterator[Path]:
    """Yield a temporary copy of `source` in its own folder below the memory root.

    `prefix` is one of PREFIXES. Raises StoreBusy, and StoreDamaged if the file is empty.
    """
    if is_emptied(source):
        raise StoreDamaged(f"{source} is damaged: {EMPTIED}; {STEPS}")
    with temporary_path(root, prefix) as copy:
        copy_database(source, copy)
        yield copy


@contextmanager
def temporary_path(root: Path, prefix: str) -> Iterator[Path]:
    """Yield the path of a temporary file in its own folder below the memory root.

    `prefix` is one of PREFIXES.
    """
    clear_copies(root)
    with ExitStack() as held:
        yield _make_folder(root, prefix, held) / "copy"


def _make_folder(root: Path, prefix: str, held: ExitStack) -> Path:
    """Return a locked temporary folder, which goes with `held`.

    Until it is locked, another program may take it for one of a killed program and remove it.
    """
    while True:
        made = tempfile.TemporaryDirectory(dir=root, prefix=prefix, ignore_cleanup_errors=True)
        folder = Path(held.enter_context(made))
        with suppress(FileNotFoundError, BlockingIOError):
            held.enter_context(_lock_folder(folder))
            if folder.exists():
                return folder


def clear_copies(root: Path) -> None:
    """Remove copies left by killed programs, which no program holds, and old reports."""
    clear_old_reports(root)
    for folder in [found for prefix in PREFIXES for found in root.glob(f"{prefix}*")]:
        with suppress(OSError), _lock_folder(folder):
            shutil.rmtree(folder)


def clear_old_reports(root: Path) -> None:
    """Remove the reports of rehearsals after REPORT_S, and drafts of a killed worker."""
    oldest_s = time.time() - REPORT_S
    for path in (root / REPORTS).glob("*/*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest_s:
                path.unlink()


def clear_reports(root: Path) -> None:
    """Remove the reports of all rehearsals, because something was erased."""
    with suppress(FileNotFoundError):
        shutil.rmtree(root / REPORTS)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder. Raises OSError if another program holds it or the
    folder is gone.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def copy_over(source: Path, target: Path) -> None:
    """Replace the content of `target`, which others may have open, by that of `source` in one
    transaction.
    """
    with (
        translate_errors(str(target)),
        closing(apsw.Connection(str(source))) as reading,
        closing(apsw.Connection(str(target))) as writing,
    ):
        writing.set_busy_timeout(BUSY_MS)
        _copy_pages(reading, writing, source, target)


@contextmanager
def open_source(path: Path) -> Iterator[apsw.Connection]:
    """Yield a connection that leaves the files as it found them. A log that
    reveals a crash stays.
    """
    with translate_errors(str(path)):
        log = Path(f"{path}-wal")
        crashed = log.exists() and log.stat().st_size > 0
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            keep_log(connection, crashed)
            yield connection


def inspect_system(path: Path) -> list[str]:
    """Return the faults of a copy of the control plane."""
    with translate_errors(str(path)), closing(apsw.Connection(str(path))) as connection:
        if faults := structural_faults(connection, pragma="integrity_check"):
            return faults
        is_ours = (
            connection.execute(
                "SELECT count(*) FROM sqlite_schema WHERE name IN ('bundles', 'pipelines')"
            ).get
            == 2
        )
        if not is_ours:
            return ["it is not a Memrelay control plane: it has no pipelines"]
        return _foreign_schema_faults(connection, "")


def inspect(path: Path) -> Inspection:
    """Inspect a copy that no other program uses: pages, rows, checksums and the
    full-text indexes.
    """
    with (
        translate_errors(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        faults = structural_faults(connection, pragma="integrity_check")
        if not faults and connection.pragma("application_id") != APPLICATION_ID:
            is_another = connection.execute("SELECT count(*) FROM sqlite_schema").get
            faults = ["it is not a Memrelay store; move it away" if is_another else EMPTIED]
        faults = faults or _foreign_schema_faults(connection, "\n".join(migrations()))
        if faults:
            return Inspection(0, 0, "", faults, [])
        if connection.pragma("user_version") < CHECKSUMS_SINCE:
            records = connection.execute("SELECT count(*) FROM records").get
            return Inspection(records, records, "", _index_faults(connection), [])
        records, unknown, guids = _compare_checksums(connection, CURRENT_TEXTS)
        if connection.pragma("user_version") >= VERSIONS_SINCE:
            guids = list(dict.fromkeys([*guids, *_compare_checksums(connection, VERSION_TEXTS)[2]]))
        return Inspection(
            records,
            unknown,
            commit_mark(connection),
            _describe_changed(guids) + _index_faults(connection),
            guids,
        )


def _foreign_schema_faults(connection: apsw.Connection, known: str) -> list[str]:
    """Return a fault for each trigger and view whose SQL does not occur in `known`.

    Such code in a database file would run with every later write.
    """
    found = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name"
    )
    return [
        f"it has the {kind} {name!r}, which Memrelay did not create; drop it if you know its origin"
        for kind, name, sql in found
        if sql not in known
    ]


def check_texts(connection: apsw.Connection, memory_id: str) -> None:
    """Check all records and earlier versions in a copy of that store.

    Raises StoreDamaged: a text differs from what was written.
    """
    changed = [
        *_compare_checksums(connection, CURRENT_TEXTS)[2],
        *_compare_checksums(connection, VERSION_TEXTS)[2],
    ]
    if faults := _describe_changed(changed):
        raise StoreDamaged(
            f"{memory_id} is damaged: {faults[0]}; run `memrelay scrub` for details and the remedy"
        )


def accept_texts(path: Path) -> None:
    """Set the checksums of changed records and versions to their current texts."""
    with (
        translate_errors(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.create_scalar_function("crc_of", _crc_of, 2, deterministic=True)
        for table in ("records", "versions"):
            crc = f"crc_of({NAMES}, CAST(content AS BLOB))"
            connection.execute(
                f"UPDATE {table} SET crc = {crc} WHERE content IS NOT NULL AND crc <> {crc}"
            )


def _crc_of(*texts: Any) -> int:
    return checksum_of_bytes(*texts)


def _describe_changed(guids: list[str]) -> list[str]:
    """Return the fault for changed records, [] if there are none."""
    count = len(set(guids))
    return (
        [f"{count} {'record differs' if count == 1 else 'records differ'} from what was written"]
        if count
        else []
    )


def _compare_checksums(connection: apsw.Connection, rows: str) -> tuple[int, int, list[str]]:
    """Return (number of rows, rows without a checksum, guids of rows with another checksum)."""
    records, unknown, guids = 0, 0, []
    for guid, names, content, crc in connection.execute(rows):
        records += 1
        if crc is None:
            unknown += 1
        elif checksum_of_bytes(names, content) != crc:
            guids.append(guid.decode(errors="replace"))
    return records, unknown, guids


def _index_faults(connection: apsw.Connection) -> list[str]:
    """Compare the full-text indexes with their text, the one check that SQLite does not make by
    itself.
    """
    try:
        for (index,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%fts5%'"
        ).fetchall():
            connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    except apsw.CorruptError:
        return ["the full-text index does not match the records"]
    return []
