"""The stores and the control plane of the installation, and copies of them."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from memrelay.cli.settings import Settings
from memrelay.memory.control.database import copy_control_plane
from memrelay.memory.control.opening import make_journal, open_database
from memrelay.memory.control.system_file import NAME
from memrelay.memory.engine.copy import FOR_EXPORT, temporary_copy, temporary_path
from memrelay.memory.engine.memory_id import list_stores, store_path
from memrelay.memory.transfer.backup import LocalFiles, StoreFiles


@contextmanager
def open_store_files(settings: Settings) -> Iterator[StoreFiles]:
    """Yield the stores: the files below the memory root, or the journals in PostgreSQL."""
    root = settings.memory.root
    journal = make_journal(root, settings.storage.url)
    if journal is None:
        yield LocalFiles(root)
        return
    with closing(journal):
        yield journal


def existing_stores(settings: Settings, names: Iterable[str]) -> list[str]:
    """Return those of the named stores that were ever created."""
    with open_store_files(settings) as files:
        return [name for name in names if files.exists(name)]


@contextmanager
def copied_store(settings: Settings, memory_id: str) -> Iterator[Path]:
    """Yield a temporary copy of a store. Raises StoreBusy and StoreBroken."""
    root = settings.memory.root
    if not settings.storage.url:
        with temporary_copy(store_path(root, memory_id), root, FOR_EXPORT) as copy:
            yield copy
        return
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with temporary_path(root, FOR_EXPORT) as copy:
        with open_store_files(settings) as files:
            files.copy(memory_id, copy)
        yield copy


def move_to_journals(settings: Settings, *, replace: bool) -> int:
    """Give the local stores journals, and return their number.

    Without `replace`, stores that have a journal already stay as they are. Raises StoreBusy and
    StoreBroken.
    """
    root, moved = settings.memory.root, 0
    with open_store_files(settings) as journals:
        known = set() if replace else set(journals.list())
    for memory_id in list_stores(root):
        if memory_id not in known:
            put_in_journal(settings, memory_id)
            moved += 1
    return moved


def put_in_journal(settings: Settings, memory_id: str) -> None:
    """Make the local file of a store the content of a new generation of its journal."""
    journal = make_journal(settings.memory.root, settings.storage.url)
    if journal is not None:
        with closing(journal):
            journal.put(memory_id)


# How long the copy may take.
COPY_TIMEOUT_S = 600.0


async def import_system_file(settings: Settings, file: Path, *, replace: bool) -> dict[str, int]:
    """Copy a system.db to `storage.url`, and return the number of rows by table.

    The file stays unchanged: its copy is opened. Raises NotReplaced, StoreBusy and StoreBroken.
    """
    with tempfile.TemporaryDirectory(prefix="memrelay-") as folder:
        shutil.copyfile(file, Path(folder) / NAME)
        async with (
            open_database(Path(folder), "") as source,
            open_database(settings.memory.root, settings.storage.url, COPY_TIMEOUT_S) as target,
        ):
            return await copy_control_plane(source, target, replace=replace)


@asynccontextmanager
async def exported_system_file(settings: Settings) -> AsyncIterator[Path]:
    """Yield a system.db with the control plane: the file in use, or a copy of PostgreSQL."""
    root, url = settings.memory.root, settings.storage.url
    if not url:
        yield root / NAME
        return
    with tempfile.TemporaryDirectory(prefix="memrelay-") as folder:
        async with (
            open_database(root, url, COPY_TIMEOUT_S) as source,
            open_database(Path(folder), "") as target,
        ):
            await copy_control_plane(source, target, replace=False)
        yield Path(folder) / NAME
