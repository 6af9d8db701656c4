"""The folders: can they be written, do others stay out, is there room?"""

import os
import resource
import shutil
import stat
import tempfile
from pathlib import Path

import apsw

from memrelay.cli.doctor.finding import Finding, fault, ok, warning
from memrelay.cli.settings import Settings
from memrelay.memory.disk import is_disk_full

LITTLE_BYTES, SCARCE_BYTES = 1 << 30, 100 << 20


async def check_folders(settings: Settings) -> list[Finding]:
    """The memory root, and the embedded bus's folder where that is used."""
    found = _check("memory.root", settings.memory.root)
    return found if settings.bus.url else found + _check("bus.data", settings.bus.data)


def _check(setting: str, folder: Path) -> list[Finding]:
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    trouble = _why_not_writable(there)
    if trouble is not None:
        remedy = "make room there" if is_disk_full(trouble) else "make it a folder of this user's"
        return [
            fault(
                setting,
                f"{there} cannot be written: {trouble.strerror or trouble}",
                f"{remedy}, or name another: MEMRELAY_{setting.upper().replace('.', '__')}",
            )
        ]
    if there != folder:
        return [ok(setting, f"{folder} is made when it is needed"), _room(setting, there)]
    return [_privacy(setting, folder), _room(setting, folder)]


def _why_not_writable(folder: Path) -> OSError | None:
    """The system's word, from trying it: permissions alone do not tell of a disk that is full or
    read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"memrelay")
            file.flush()
    except OSError as error:
        return error
    return None


def _privacy(setting: str, folder: Path) -> Finding:
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022:
        return fault(
            setting, f"other users may change {folder} (mode {mode:o})", f"chmod 700 {folder}"
        )
    if mode & 0o077:
        return warning(
            setting, f"other users may look into {folder} (mode {mode:o})", f"chmod 700 {folder}"
        )
    if found.st_uid != os.geteuid():
        return warning(
            setting,
            f"{folder} is user {found.st_uid}'s",
            f"run Memrelay as that user, or chown {folder}",
        )
    return ok(setting, f"{folder} can be written, by you alone")


def _room(setting: str, folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GB are free at {folder}"
    remedy = "make room; once the disk is full, messages wait on the bus and then are refused"
    if free < SCARCE_BYTES:
        return fault(setting, text, remedy)
    return warning(setting, text, remedy) if free < LITTLE_BYTES else ok(setting, text)


# This machine and this installation: SQLite, and how many files may be open.

OLDEST_SQLITE = (3, 54, 0)  # what pyproject.toml asks for; its tests have run on no older one
HANDLES_A_STORE, OTHER_HANDLES = 3, 128


async def check_sqlite(settings: Settings) -> list[Finding]:
    """The SQLite that apsw carries."""
    version = apsw.sqlite_lib_version()
    remedy = "install what requirements.lock names: `make up` does"
    if "ENABLE_FTS5" not in apsw.compile_options:
        return [
            fault(
                "sqlite",
                f"SQLite {version} is built without FTS5, by which records are found",
                remedy,
            )
        ]
    if tuple(map(int, version.split(".")[:3])) < OLDEST_SQLITE:
        return [
            warning(
                "sqlite",
                f"SQLite {version} is older than {'.'.join(map(str, OLDEST_SQLITE))}",
                remedy,
            )
        ]
    return [ok("sqlite", f"SQLite {version} with FTS5 (apsw {apsw.apsw_version()})")]


async def check_handles(settings: Settings) -> list[Finding]:
    """Each open store takes three. What serves raises the limit as far as it may, so the hard one
    counts."""
    stores = settings.memory.open_files
    needed = stores * HANDLES_A_STORE + OTHER_HANDLES
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return [
            ok(
                "handles",
                f"{'any number of' if limit == resource.RLIM_INFINITY else limit} files may be open; "
                f"{stores} stores need {needed}",
            )
        ]
    return [
        warning(
            "handles",
            f"{limit} files may be open, and {stores} stores (memory.open_files) need {needed}",
            f"ulimit -Hn {needed} before Memrelay starts, or MEMRELAY_MEMORY__OPEN_FILES="
            f"{max(1, (limit - OTHER_HANDLES) // HANDLES_A_STORE)}",
        )
    ]
