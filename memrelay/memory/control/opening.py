"""Chooses the database of the control plane, and whether stores have journals."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from memrelay.installation import install_extra
from memrelay.memory.control.database import ControlDatabase
from memrelay.memory.control.system_file import SystemFile
from memrelay.memory.engine.models import load
from memrelay.memory.errors import StoreBroken

if TYPE_CHECKING:
    from memrelay.memory.engine.journal.journal import Journal
    from memrelay.memory.engine.journal.projection import Projector

# How long a transaction of the control plane may take. Each changes few rows.
TIMEOUT_S = 10.0
INSTALL = f"storage.url needs psycopg and cryptography: {install_extra('postgres')}"


class _Postgres(Protocol):
    PostgresDatabase: Callable[[str, float], ControlDatabase]


def open_database(root: Path, storage_url: str, timeout_s: float = TIMEOUT_S) -> ControlDatabase:
    """Return the database, not yet open: system.db in `root`, or PostgreSQL at `storage_url`.

    `timeout_s` limits a transaction of PostgreSQL. psycopg is imported only with a `storage_url`.
    Raises StoreBroken: it is not installed.
    """
    if not storage_url:
        return SystemFile(root)
    try:
        module = load("memrelay.memory.control.postgres")
    except ModuleNotFoundError as error:
        raise StoreBroken(INSTALL) from error
    return cast(_Postgres, module).PostgresDatabase(storage_url, timeout_s)


def make_journal(
    root: Path, storage_url: str, projector: "Projector | None" = None
) -> "Journal | None":
    """Return the journals of the stores below `root` for one thread; None without `storage_url`.

    Raises StoreBroken: psycopg or cryptography is not installed.
    """
    if not storage_url:
        return None
    journal: Journal = _import("journal").Journal(root, storage_url, projector)
    return journal


def make_projector(root: Path, storage_url: str) -> "Projector":
    """Return the thread that keeps readable tables, not yet started.

    Raises StoreBroken: psycopg or cryptography is not installed.
    """
    projector: Projector = _import("projection").Projector(root, storage_url)
    return projector


def _import(name: str) -> Any:
    try:
        return load(f"memrelay.memory.engine.journal.{name}")
    except ModuleNotFoundError as error:
        raise StoreBroken(INSTALL) from error
