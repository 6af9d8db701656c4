"""Registers on the bus which of a worker's pipelines are members of public swarms."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import all_cells
from memrelay.bus.lease.fencing import FencedWriter, log_refusals
from memrelay.bus.public_listeners import (
    Member,
    list_members,
    pack_add_members,
    pack_remove_members,
)
from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.plan import Plan

log = get_logger(__name__)
# The members are written again this often, in case the server has lost them.
REPEAT_S = 2.0


class PublicMembers:
    """Keeps the list of members in step with the pipelines of this worker.

    Writes are fenced, so a paused owner that wakes up cannot restore a removed pipeline. `catalog`
    knows which pipelines were removed.
    """

    def __init__(
        self, control: ReconnectingConnection, writer: FencedWriter, catalog: Catalog
    ) -> None:
        self._control, self._writer, self._catalog = control, writer, catalog
        self._members: list[Member] = []

    async def serve(self, plans: Sequence[Plan]) -> None:
        """Register exactly these pipelines of this worker. Raises BusUnavailable and Fenced.

        Pipelines of other workers stay. Removed pipelines go, whichever worker owned them. With
        several cells there are no public swarms.
        """
        if len(all_cells()) > 1:
            return
        self._members = [member for plan in plans for member in make_members(plan)]
        uids, wanted = {plan.uid for plan in plans}, set(self._members)
        registered = await list_members(self._control)
        stale = [
            member
            for member in registered
            if member not in wanted and (member.uid in uids or await self._is_removed(member.uid))
        ]
        await self._write(self._members, stale)

    async def run(self) -> None:
        """Repeat the registration until cancelled. Raises BusUnavailable and Fenced."""
        while True:
            await asyncio.sleep(REPEAT_S)
            await self._write(self._members)

    async def _is_removed(self, uid: str) -> bool:
        """Return whether a pipeline was in service in this memory root and no longer is.

        While the catalog is busy, it counts as in service.
        """
        try:
            if await self._catalog.serving(uid) is not None:
                return False
            return bool(await self._catalog.versions(uid))
        except (StoreBusy, StoreBroken):
            return False

    async def _write(self, members: Collection[Member], stale: Collection[Member] = ()) -> None:
        commands = [
            pack(some)
            for some, pack in ((members, pack_add_members), (stale, pack_remove_members))
            if some
        ]
        if not commands:
            return
        uids = sorted({member.uid for member in (*members, *stale)})
        try:
            log_refusals(await self._writer.send(commands, len(commands)), uids)
        except BusRefused as error:  # for example, the server is out of memory
            log.warning("public_swarms_not_entered", pipelines=uids, reason=str(error))


def make_members(plan: Plan) -> Iterable[Member]:
    return [
        Member(swarm, plan.uid, swarm in plan.listens_in_public) for swarm in sorted(plan.public)
    ]
