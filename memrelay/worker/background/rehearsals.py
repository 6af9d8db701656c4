"""The rehearsals of a worker (memrelay/rehearsal). Loaded with the first call about one."""

import asyncio
from collections.abc import Collection
from threading import Lock
from typing import TYPE_CHECKING, Any

from memrelay.memory.engine.models import load
from memrelay.pipelines.plan import Plan

if TYPE_CHECKING:
    from memrelay.worker.shared import WorkerContext

REHEARSALS = "memrelay.rehearsal.service:Rehearsals"


class LazyRehearsals:
    """Loads the rehearsals when they are needed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: Any = None

    def find(self, shared: "WorkerContext", loop: asyncio.AbstractEventLoop, plan: Plan) -> Any:
        """Return the rehearsals of a pipeline. `loop` is that of the worker."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load(REHEARSALS)(shared, loop)
        return self._loaded.of(plan)

    def stop(self, uids: Collection[str], reason: str) -> None:
        """Stop the rehearsals of these pipelines that run, without waiting for their end."""
        if self._loaded is not None:
            self._loaded.stop(uids, reason)

    async def stop_all(self, reason: str) -> None:
        """Stop all rehearsals, wait for their end, and delete the reports of all."""
        if self._loaded is not None:
            await self._loaded.stop_all(reason)
