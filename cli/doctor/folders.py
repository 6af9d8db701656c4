"""The folders: can they be written, do others stay out, is there room?"""

import os
import shutil
import stat
import tempfile
from pathlib import Path

from cli.doctor.finding import Finding, fault, ok, warning
from cli.settings import Settings
from memory.room import lacks_room

LITTLE_BYTES, SCARCE_BYTES = 1 << 30, 100 << 20


async def check_folders(settings: Settings) -> list[Finding]:
    """The memory root, and the embedded bus's folder where that is used."""
    found = _check("memory.root", settings.memory.root)
    return found if settings.bus.url else found + _check("bus.data", settings.bus.data)


def _check(setting: str, folder: Path) -> list[Finding]:
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    trouble = _why_not_writable(there)
    if trouble is not None:
        remedy = "make room there" if lacks_room(trouble) else "make it a folder of this user's"
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
