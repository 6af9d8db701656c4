"""The one thread in which a worker makes vectors, beside its work."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.errors import EmbeddingFault, MemoryFault

log = structlog.stdlib.get_logger(__name__)
Result = TypeVar("Result")
LOWEST = 19  # as `nice` counts
MOST_REASON = 300  # characters of a library's error that are told


class EmbeddingThread:
    """What it computes waits for whatever else the processor has to do: messages go first."""

    def __init__(self, options: EmbeddingOptions) -> None:
        """Neither the thread nor the embedder is there before the first work."""
        self.embedder = LazyEmbedder(options)
        self._executor = ThreadPoolExecutor(1, "embedding", initializer=_step_back)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Runs work in the thread, after what was asked before.

        Raises what it does, and EmbeddingFault for what a library raises: that is no reason to make
        vectors no more.
        """
        asked = asyncio.get_running_loop().run_in_executor(self._executor, work)
        (outcome,) = await asyncio.gather(asked, return_exceptions=True)
        if isinstance(outcome, Exception) and not isinstance(outcome, MemoryFault):
            log.error("embedder_failed", exc_info=outcome)
            raise EmbeddingFault(
                f"the embedder fails: {type(outcome).__name__}: {outcome}"[:MOST_REASON]
            ) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """Ends after what is under way; what waits is not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _step_back() -> None:
    """Linux schedules threads one by one; elsewhere this would be the whole process."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
