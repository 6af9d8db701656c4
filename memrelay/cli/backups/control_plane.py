"""Copies of the control plane between system.db and PostgreSQL, for backups and moves."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from memrelay.cli.settings import Settings
from memrelay.memory.control.moving import copy_control_plane
from memrelay.memory.control.opening import open_database
from memrelay.memory.control.system_file import NAME

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
