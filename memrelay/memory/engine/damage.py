"""Detect damaged stores after a crash, leave them unchanged and reject them until the operator
decides.

A note next to the file, `<file>.damaged`, records the finding, the state of the file and the
remedy. While the file is in that state, the store is not opened. A file in another state is checked
completely, and the note is removed if nothing is found.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy, StoreDamaged

# Time limit of the check at opening, enough for about 100 MB. A scrub checks larger stores
# completely.
CHECK_S = 1.0
ANY = "any"
# Bytes per read when a file is tested for read errors.
CHUNK_BYTES = 1 << 20
EMPTIED = "it is empty: its data is lost"
STEPS = (
    "restore a backup with `memrelay restore`, or keep the readable part with `memrelay salvage`"
)


def note_of(path: Path) -> Path:
    """Return the path of the damage note of the store at `path`."""
    return path.with_name(path.name + ".damaged")


def mark_damaged(path: Path, reason: str, state: str = "") -> StoreDamaged:
    """Write the damage note and return the error to raise.

    Without disk space for the note, the damage is found again at the next opening. The note applies
    to the current state of the file, or to any state for ANY.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    with suppress(OSError):
        note_of(path).write_text(
            f"{reason}\n{state or _state(path)}\nFound at {at} UTC. Nothing was changed; {STEPS}.\n"
        )
    return _damage_error(path, reason)


def found_damaged(path: Path, reason: str) -> MemoryFault:
    """Return the error to raise for a store that SQLite calls damaged, and write the damage note.

    No note is written if the disk has read errors: SQLite takes those for damage, and the note
    would outlive a loose cable.
    """
    error = disk_error(path)
    return (
        mark_damaged(path, reason) if error is None else StoreBusy(unreadable_message(path, error))
    )


def disk_error(path: Path) -> OSError | None:
    """Return the error of reading the file or its log to the end, None if both are readable or
    missing.
    """
    for name in (path, Path(f"{path}-wal")):
        try:
            _read_to_end(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None


def _read_to_end(name: Path) -> None:
    with name.open("rb", buffering=0) as file:
        while file.read(CHUNK_BYTES):
            pass


def unreadable_message(path: Path | str, error: OSError) -> str:
    """Return the message for a file that cannot be read."""
    return (
        f"{path} cannot be read: {error.strerror}; check its disk (see the system log), it is "
        "retried"
    )


def _damage_error(path: Path, reason: str) -> StoreDamaged:
    error = StoreDamaged(f"{path} is damaged: {reason}; {STEPS}")
    error.noted = True
    return error


def needs_check(path: Path) -> bool:
    """Return whether the store at `path` may be damaged. Raises StoreDamaged if it is known to be.

    A log that is not empty belongs to a program that crashed or still has the file open.
    """
    with suppress(FileNotFoundError):
        reason, state, *_ = [*note_of(path).read_text().split("\n"), ""]
        if state in (ANY, _state(path)) or not path.exists():
            raise _damage_error(path, reason)
        return True
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def is_emptied(path: Path) -> bool:
    """Return whether the store and its log are empty. A new store is never empty."""
    return path.exists() and not any(
        one.stat().st_size for one in (path, Path(f"{path}-wal")) if one.exists()
    )


def noted(path: Path) -> list[str]:
    """Return the damage note of the store on one line, [] if there is none for its
    current state.
    """
    try:
        needs_check(path)
    except StoreDamaged as error:
        return [str(error)]
    return []


def check(connection: apsw.Connection, path: Path, within_s: float = CHECK_S) -> None:
    """Check pages, rows and the full-text index within the time limit.

    Raises StoreDamaged. Removes an outdated note.
    """
    keep_log(connection, True)
    faults = structural_faults(connection, within_s)
    if faults:
        raise found_damaged(path, faults[0])
    keep_log(connection, False)
    note_of(path).unlink(missing_ok=True)


def structural_faults(
    connection: apsw.Connection, within_s: float | None = None, *, pragma: str = "quick_check"
) -> list[str]:
    """Return the first fault that SQLite finds within the time limit, on one line, [] for none."""
    deadline = None if within_s is None else time.monotonic() + within_s
    connection.set_progress_handler(
        lambda: deadline is not None and time.monotonic() > deadline, 1000
    )
    try:
        found = str(connection.execute(f"PRAGMA {pragma}(1)").get)
    except apsw.InterruptError:
        return []
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    finally:
        connection.set_progress_handler(None)
    return [] if found == "ok" else [" ".join(found.split())]


def keep_log(connection: apsw.Connection, keep: bool) -> None:
    """Set whether closing keeps the log, so that a damaged file is not changed."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep))


@contextmanager
def mark_on_damage(path: Path) -> Iterator[None]:
    """Write a damage note for errors that SQLite itself meets in the block.

    Raises StoreBroken: the tables do not match the schema version.
    """
    try:
        yield
    except apsw.SQLError as error:
        raise StoreBroken(
            f"{path} has tables that do not match its schema version: {error}; nothing was "
            f"changed; {STEPS}, both with --force"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise found_damaged(path, str(error)) from error


def _state(path: Path) -> str:
    """Return the inode, size and modification time of the file and its log."""
    found = []
    for name in (path, Path(f"{path}-wal")):
        with suppress(FileNotFoundError):
            one = os.stat(name)
            found.append(f"{one.st_ino}.{one.st_size}.{one.st_mtime_ns}")
    return " ".join(found)
