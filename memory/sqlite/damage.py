"""Damaged stores: found when they are opened after a crash, left as they are, and refused until
somebody decides.

A note beside the file, `<file>.damaged`, says what was found, of which state of the file, and what
to do. While that state is
there the store is not opened; another one is checked wholly, and the note goes where nothing is
found.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy, StoreDamaged

# what a check at opening may take: some 100 MB; a larger store is checked as far as that goes, and
# by a scrub
CHECK_S = 1.0
ANY = "any"
AT_ONCE = 1 << 20  # bytes, where a file is read to see whether it can be
EMPTIED = "it is empty, and what it had is gone"
STEPS = (
    "`memrelay restore` puts a backup in its place, `memrelay salvage` keeps what can still be read"
)


def note_of(path: Path) -> Path:
    """The note on the store at `path`."""
    return path.with_name(path.name + ".damaged")


def condemn(path: Path, reason: str, state: str = "") -> StoreDamaged:
    """Writes the note, and returns what is to be raised. Without room for a note, it is found again
    at the next opening.

    It is true of the file as it is now; with `state` ANY, of whatever is there.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    with suppress(OSError):
        note_of(path).write_text(
            f"{reason}\n{state or _state(path)}\nFound at {at} UTC. Nothing was changed; {STEPS}.\n"
        )
    return _damaged(path, reason)


def found_damaged(path: Path, reason: str) -> MemoryFault:
    """What is to be raised of a store that SQLite calls damaged: it is condemned, unless its disk
    does not give what it has.

    SQLite takes an error of reading for damage, and a note would outlive a cable that was loose.
    """
    error = disk_error(path)
    return condemn(path, reason) if error is None else StoreBusy(unread(path, error))


def disk_error(path: Path) -> OSError | None:
    """Of reading the file, or its log, to the end; None where they can be read, or are not
    there."""
    for name in (path, Path(f"{path}-wal")):
        try:
            _read_wholly(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None


def _read_wholly(name: Path) -> None:
    with name.open("rb", buffering=0) as file:
        while file.read(AT_ONCE):
            pass


def unread(path: Path | str, error: OSError) -> str:
    """That the disk does not give a file, in our words."""
    return f"{path} cannot be read: {error.strerror}; look at its disk (the system's log says more), it is tried again"


def _damaged(path: Path, reason: str) -> StoreDamaged:
    damaged = StoreDamaged(f"{path} is damaged: {reason}; {STEPS}")
    damaged.noted = True
    return damaged


def needs_check(path: Path) -> bool:
    """Whether the store at `path` may be damaged. Raises StoreDamaged where it is known to be.

    A log that is not empty was left by a program that did not close the file, or by one that has it
    open.
    """
    with suppress(FileNotFoundError):
        reason, state, *_ = [*note_of(path).read_text().split("\n"), ""]
        if state in (ANY, _state(path)) or not path.exists():
            raise _damaged(path, reason)
        return True
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def is_emptied(path: Path) -> bool:
    """Whether a store has nothing in it any more, nor in its log: a new one is whole as soon as it
    is there."""
    return path.exists() and not any(
        one.stat().st_size for one in (path, Path(f"{path}-wal")) if one.exists()
    )


def noted(path: Path) -> list[str]:
    """What the note on the store at `path` says of it, on a line, where that is true of what is
    there; else []."""
    try:
        needs_check(path)
    except StoreDamaged as damaged:
        return [str(damaged)]
    return []


def check(connection: apsw.Connection, path: Path, within_s: float = CHECK_S) -> None:
    """Pages, rows and the full-text index, as far as the time goes. Raises StoreDamaged; forgets a
    note that is not true."""
    keep_log(connection, True)
    faults = structural_faults(connection, within_s)
    if faults:
        raise found_damaged(path, faults[0])
    keep_log(connection, False)
    note_of(path).unlink(missing_ok=True)


def structural_faults(
    connection: apsw.Connection, within_s: float | None = None, *, pragma: str = "quick_check"
) -> list[str]:
    """The first that SQLite finds wrong within the time, on a line; [] for nothing."""
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
    """Whether closing leaves the log where it is, for a damaged file is not to be changed."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep))


@contextmanager
def condemned_where_damaged(path: Path) -> Iterator[None]:
    """A fault of the file that SQLite itself runs into is noted. Raises StoreBroken where tables
    are not as its number says."""
    try:
        yield
    except apsw.SQLError as error:
        raise StoreBroken(
            f"{path} has other tables than its schema's number says: {error}; nothing was changed; {STEPS}, both "
            "with --force"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise found_damaged(path, str(error)) from error


def _state(path: Path) -> str:
    """By which a file is known again."""
    found = []
    for name in (path, Path(f"{path}-wal")):
        with suppress(FileNotFoundError):
            one = os.stat(name)
            found.append(f"{one.st_ino}.{one.st_size}.{one.st_mtime_ns}")
    return " ".join(found)
