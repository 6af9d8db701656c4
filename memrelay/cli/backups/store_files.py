"""The stores of the configured installation, and temporary copies of them."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from memrelay.cli.settings import Settings
from memrelay.memory.control.opening import make_journal
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
