"""The stores of an installation as files, for programs that do not own them."""

from pathlib import Path
from typing import Protocol

from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.memory_id import list_stores, store_path
from memrelay.memory.errors import BadBackup


class StoreFiles(Protocol):
    """The stores of an installation. Every method may raise StoreBusy and StoreBroken."""

    def exists(self, memory_id: str) -> bool:
        """Return whether a store was ever created. A damaged one counts."""

    def list(self) -> list[str]:
        """Return all stores."""

    def copy(self, memory_id: str, target: Path) -> None:
        """Copy a store to a new file while it is in use.

        Raises BadBackup: it has no usable file.
        """


class LocalFiles:
    """The files below a memory root. See StoreFiles."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self, memory_id: str) -> bool:
        """Return whether the store has a file, or a damage note."""
        path = store_path(self._root, memory_id)
        return path.exists() or note_of(path).exists()

    def list(self) -> list[str]:
        """Return the stores with files."""
        return list_stores(self._root)

    def copy(self, memory_id: str, target: Path) -> None:
        """Copy the file of a store."""
        source = store_path(self._root, memory_id)
        if (note := note_of(source)).exists():
            raise BadBackup(f"{source} is damaged; see {note}")
        if not source.exists():
            raise BadBackup(f"{source} does not exist: nothing was stored yet, or it was removed")
        copy_database(source, target)
