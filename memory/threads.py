"""Database threads: each owns its stores, so that a slow search or a locked file delays only its own."""
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from memory.recall.meaning import Meaning
from memory.stores import OpenStores

Result = TypeVar("Result")


class DatabaseThread:
    """One thread and the stores that only it touches. Whole batches are handed over, since each hand-over costs 100 us."""

    def __init__(self, name: str, root: Path, most_open: int, meaning: Meaning | None = None) -> None:
        """The thread starts with the first work; the rest as OpenStores has it."""
        self._stores = OpenStores(root, most_open, meaning)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[OpenStores], Result]) -> Result:
        """Runs `work` in the thread, after what was asked before, and returns or raises what it does."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, self._stores)

    async def close(self) -> None:
        """Finishes what was asked, closes the stores and ends the thread."""
        await self.run(OpenStores.close_all)
        self._executor.shutdown()
