"""Backups in object stores: what `memrelay backup` and `memrelay restore` do with a URL."""

import importlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memrelay.cli.composition import fail, note
from memrelay.installation import install_extra
from memrelay.memory.control.key_requests import LIFETIME, UNIT_MS
from memrelay.memory.errors import MemoryFault
from memrelay.memory.transfer.backup import Manifest
from memrelay.memory.transfer.backup_times import NAME, choose_surplus

if TYPE_CHECKING:
    from memrelay.memory.transfer.object_store import Backups

INSTALL = f"backups in object stores need obstore: {install_extra('objects')}"
KEEP = re.compile(r"(?:([1-9][0-9]{0,3})d)?,?(?:([1-9][0-9]{0,3})w)?")


class Keep(NamedTuple):
    """Of how many days and weeks the newest backup is kept."""

    days: int
    weeks: int


def is_url(place: str) -> bool:
    """Return whether a place is an object store, not a folder."""
    return "://" in place


def open_backups(url: str) -> "Backups":
    """Return the backups at a URL. End the command if obstore is not installed."""
    try:
        module = importlib.import_module("memrelay.memory.transfer.object_store")
    except ModuleNotFoundError:
        fail(INSTALL)
    backups: Backups = module.Backups(url)
    return backups


def parse_period(text: str) -> int:
    """Return the seconds of a period such as 15m. End the command if it is none."""
    match = LIFETIME.fullmatch(text)
    if match is None:
        fail(f"--every must be a number with m, h or d, such as 15m; not {text[:50]!r}")
    return int(match[1]) * UNIT_MS[match[2]] // 1000


def parse_keep(text: str) -> Keep:
    """Return what to keep, such as 7d,4w. End the command if it is nothing."""
    match = KEEP.fullmatch(text)
    if not text or match is None or not any(match.groups()):
        fail(f"--keep must be days and weeks, such as 7d,4w; not {text[:50]!r}")
    return Keep(int(match[1] or 0), int(match[2] or 0))


@contextmanager
def downloaded(place: str, root: Path) -> Iterator[Path]:
    """Yield the folder of a backup: `place` itself, or the copy of one at a URL.

    A URL without a name selects the newest backup. Ends the command if there is none.
    """
    if not is_url(place):
        yield Path(place)
        return
    url, _, name = place.rstrip("/").rpartition("/")
    if not NAME.fullmatch(name):
        url, name = place, ""
    backups = open_backups(url)
    if not name:
        names = backups.names()
        name = names[-1] if names else fail(f"{url} has no backup; make one with `memrelay backup`")
        note(f"the newest backup is {name}")
    with draft_folder(root) as folder:
        backups.download(name, folder)
        yield folder


@contextmanager
def draft_folder(root: Path) -> Iterator[Path]:
    """Yield the path of a folder to make, next to the memory root, which has a disk for it."""
    root.parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=root.parent, prefix=".memrelay-backup-")
    try:
        yield Path(folder) / "backup"
    finally:
        try:
            shutil.rmtree(folder)
        finally:  # again, because a signal may have ended it
            shutil.rmtree(folder, ignore_errors=True)


def delete_surplus(backups: "Backups", keep: Keep | None) -> None:
    """Delete the backups that need not be kept, and what killed ones have left."""
    surplus = choose_surplus(backups.names(), *keep) if keep else []
    for name in (*surplus, *backups.abandoned(time.time())):
        backups.delete(name)
        note(f"deleted the backup {name}")


def repeat(every_s: int, make: Callable[[], Manifest]) -> None:
    """Make a backup now and then every `every_s` seconds. A failed one is reported."""
    while True:
        began = time.monotonic()
        try:
            make()
        except (MemoryFault, OSError) as error:
            note(f"this backup failed, and the next one follows: {error}")
        time.sleep(max(0.0, every_s - (time.monotonic() - began)))
