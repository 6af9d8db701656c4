"""Dead letters and deploys of a pipeline, which the control plane has, as events of endpoints."""

from functools import partial

from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.models.endpoints.service_events import (
    DEPLOYS,
    add_service_events,
    make_dead_letter_event,
    make_deploy_event,
    read_cursors,
)
from memrelay.worker.shared import WorkerContext

# Dead letters that become deliveries in one transaction.
LETTERS_TOGETHER = 500


class ControlPlaneEvents:
    """Makes deliveries of what is new in the control plane, if something may be.

    That is so at first, and after `note`.
    """

    def __init__(self, uid: str, store: str, thread: DatabaseThread, shared: WorkerContext) -> None:
        self._uid, self._store, self._thread, self._shared = uid, store, thread, shared
        # How often `note` was called, and how many of these calls are dealt with.
        self._noted, self._collected = 1, 0

    def note(self) -> None:
        """Announce that the pipeline has dead letters."""
        self._noted += 1

    async def collect(self) -> None:
        """Make the deliveries. Raises StoreBusy, StoreBroken and StoreFenced."""
        noted = self._noted
        while self._collected < noted:
            if not await self._collect_some():
                self._collected = noted

    async def _collect_some(self) -> bool:
        """Make some deliveries, and return whether there may be more."""
        catalog = self._shared.catalog
        # Other tables count their dead letters from 1.
        of_letters = f"dead_letters {await catalog.identify()}"
        read = partial(read_cursors, name=self._store, of_letters=of_letters)
        after, version = await self._thread.run(read)
        letters = await catalog.dead_letters.page([self._uid], after=after, limit=LETTERS_TOGETHER)
        deployed = await catalog.serving(self._uid)
        events, cursors = [make_dead_letter_event(self._uid, one) for one in letters], {}
        if letters:
            cursors[of_letters] = letters[-1].place
        if deployed is not None and deployed.version != version:
            events.append(make_deploy_event(deployed))
            cursors[DEPLOYS] = deployed.version
        if cursors:
            add = partial(
                add_service_events,
                name=self._store,
                events=events,
                cursors=cursors,
                now_ms=self._shared.clock.now_ms,
            )
            await self._thread.run(add)
        return len(letters) == LETTERS_TOGETHER
