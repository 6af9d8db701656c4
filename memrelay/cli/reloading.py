"""`memrelay up --reload`: a worker that starts again when a file of `blocks.paths` changes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.registry import reload_block
from memrelay.blocks.sources import all_outside_sources
from memrelay.bus.client.url import Address
from memrelay.cli.process import Service
from memrelay.cli.services import make_worker
from memrelay.cli.settings import Settings, SettingsError
from memrelay.logs import get_logger

log = get_logger(__name__)
POLL_INTERVAL_S = 0.3
NO_FOLDERS = (
    "--reload watches the folders of blocks.paths, and there are none: set blocks.paths in "
    "config.yaml or MEMRELAY_BLOCKS__PATHS, or leave out --reload"
)
# Differs after each change of a file: the time of its change in ns, its size and its inode.
FileState = tuple[int, int, int]


def make_reloading_worker(settings: Settings, address: Address) -> "ReloadingWorker":
    """Return a worker with these settings. Raises SettingsError: without a folder to watch."""
    if not settings.blocks.paths:
        raise SettingsError([NO_FOLDERS])
    return ReloadingWorker(lambda: make_worker(settings, address))


class ReloadingWorker:
    """Runs a worker, and another one after each change of a block.

    The old worker stops in order: it finishes its messages, and the next one takes the others from
    the bus. A file that cannot be loaded stops nothing.
    """

    def __init__(self, make: Callable[[], Service]) -> None:
        self._make = make
        self._worker: Service | None = None
        self._is_stopping = False
        self._files = ChangedFiles()
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """End the worker, as `Worker.stop` does."""
        self._is_stopping = True
        if self._worker is not None:
            self._worker.stop()

    async def run(self) -> None:
        """Serve until `stop`. Raises as `Worker.run` does."""
        while not self._is_stopping:
            worker = self._worker = self._make()
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(worker.run())
                helpers = [
                    tasks.create_task(self._set_ready(worker)),
                    tasks.create_task(self._stop_after_change(worker)),
                ]
                await running
                for helper in helpers:
                    helper.cancel()

    async def _set_ready(self, worker: Service) -> None:
        await worker.ready.wait()
        self.ready.set()

    async def _stop_after_change(self, worker: Service) -> None:
        reloaded: list[str] = []
        while not reloaded:
            await asyncio.sleep(POLL_INTERVAL_S)
            reloaded = _reload(self._files.find())
        log.info("blocks_reloaded", blocks=reloaded)
        worker.stop()


class ChangedFiles:
    """Finds the files of `blocks.paths` that have changed."""

    def __init__(self) -> None:
        self._found = self._last = _read_states()

    def find(self) -> list[Path]:
        """Return the files that changed since they were returned, and not since the last call.

        An editor may still write to a file that has just changed. A deleted file is no change, so
        its block stays.
        """
        states, last = _read_states(), self._last
        self._last = states
        if states != last:
            return []
        changed = [file for file, state in states.items() if self._found.get(file) != state]
        self._found = states
        return changed


def _read_states() -> dict[Path, FileState]:
    states: dict[Path, FileState] = {}
    for source in all_outside_sources():
        if source.file is not None:
            # An editor may replace it at this moment.
            with suppress(OSError):
                about = source.file.stat()
                states[source.file] = about.st_mtime_ns, about.st_size, about.st_ino
    return states


def _reload(files: Sequence[Path]) -> list[str]:
    """Load the blocks of files again. Return the names of those that can be loaded."""
    reloaded: list[str] = []
    for file in files:
        try:
            reload_block(file.stem)
            reloaded.append(file.stem)
        except BrokenBlock as broken:
            log.error("block_not_reloaded", reason=str(broken), remedy=broken.remedy)
    return reloaded
