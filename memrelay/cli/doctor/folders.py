"""Checks of this machine: folders, disk space, SQLite, and file handles."""

import os
import resource
import shutil
import stat
import tempfile
from pathlib import Path

import apsw

from memrelay.cli.doctor import Finding, fault, ok, warning
from memrelay.cli.open_files import (
    HANDLES_PER_STORE,
    OTHER_HANDLES,
    fitting_stores,
    resolve_open_files,
)
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import format_size
from memrelay.memory.engine.disk import is_disk_full

# Free disk space below which a check warns, and below which it reports a fault.
LOW_BYTES, CRITICAL_BYTES = 1 << 30, 100 << 20
# The minimum in pyproject.toml. No older version was tested.
MINIMUM_SQLITE = (3, 54, 0)


async def check_folders(settings: Settings) -> list[Finding]:
    """Check the memory root, and the folder of the embedded bus if it is used."""
    findings = _check_folder("memory.root", settings.memory.root)
    return findings if settings.bus.url else findings + _check_folder("bus.data", settings.bus.data)


def _check_folder(setting: str, folder: Path) -> list[Finding]:
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    error = _write_error(existing)
    if error is not None:
        remedy = "free disk space there" if is_disk_full(error) else "make it a folder of this user"
        variable = f"MEMRELAY_{setting.upper().replace('.', '__')}"
        return [
            fault(
                setting,
                f"{existing} is not writable: {error.strerror or error}",
                f"{remedy}, or set another one: {variable}",
            )
        ]
    if existing != folder:
        return [
            ok(setting, f"{folder} is created when it is needed"),
            _check_space(setting, existing),
        ]
    return [_check_privacy(setting, folder), _check_space(setting, folder)]


def _write_error(folder: Path) -> OSError | None:
    """Try a write. Permissions alone do not show that a disk is full or read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"memrelay")
            file.flush()
    except OSError as error:
        return error
    return None


def _check_privacy(setting: str, folder: Path) -> Finding:
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        return fault(
            setting, f"other users can change {folder} (mode {mode:o})", f"chmod 700 {folder}"
        )
    if mode & 0o077:
        return warning(
            setting, f"other users can read {folder} (mode {mode:o})", f"chmod 700 {folder}"
        )
    if status.st_uid != os.geteuid():
        return warning(
            setting,
            f"{folder} belongs to user {status.st_uid}",
            f"run Memrelay as that user, or chown {folder}",
        )
    return ok(setting, f"{folder} is writable, and private to this user")


def _check_space(setting: str, folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{format_size(free)} free in {folder}"
    remedy = "free disk space; on a full disk, messages wait on the bus and are then refused"
    if free < CRITICAL_BYTES:
        return fault(setting, text, remedy)
    return warning(setting, text, remedy) if free < LOW_BYTES else ok(setting, text)


async def check_sqlite(settings: Settings) -> list[Finding]:
    """Check the SQLite inside apsw: its version and full-text search."""
    version = apsw.sqlite_lib_version()
    remedy = "install the versions of requirements.lock, as `make up` does"
    if "ENABLE_FTS5" not in apsw.compile_options:
        text = f"SQLite {version} lacks FTS5, which searches need"
        return [fault("sqlite", text, remedy)]
    if tuple(map(int, version.split(".")[:3])) < MINIMUM_SQLITE:
        text = f"SQLite {version} is older than {'.'.join(map(str, MINIMUM_SQLITE))}"
        return [warning("sqlite", text, remedy)]
    return [ok("sqlite", f"SQLite {version} with FTS5 (apsw {apsw.apsw_version()})")]


async def check_handles(settings: Settings) -> list[Finding]:
    """Compare the hard limit of open files with the need of the stores.

    Serving processes raise their soft limit to the hard one.
    """
    stores = resolve_open_files(settings.memory.open_files)
    needed = stores * HANDLES_PER_STORE + OTHER_HANDLES
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        allowed = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
        return [ok("handles", f"open files: {allowed}; {stores} stores need {needed}")]
    fitting = fitting_stores()
    return [
        warning(
            "handles",
            f"open files: {limit}; {stores} stores (memory.open_files) need {needed}",
            f"ulimit -Hn {needed} before the start, or MEMRELAY_MEMORY__OPEN_FILES={fitting}",
        )
    ]
