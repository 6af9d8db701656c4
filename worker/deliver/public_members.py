"""Membership: keeps the list of who listens to which public swarm in step with the pipelines that
this worker owns."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.lease.fencing import FencedWriter, log_refusals
from memrelay.bus.public_listeners import Member, add_listener, all_members, remove_listener
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.plan import Plan

log = structlog.stdlib.get_logger(__name__)
AGAIN_S = 2.0  # the members are put back this often, in case the server has lost them


class PublicMembers:
    """What is written is fenced, so that a paused owner that wakes up cannot bring a pipeline back
    that was removed."""

    def __init__(
        self, control: ReconnectingConnection, writer: FencedWriter, catalog: Catalog
    ) -> None:
        """The list is read over `control`; `catalog` knows which pipelines were removed."""
        self._control, self._writer, self._catalog = control, writer, catalog
        self._members: list[Member] = []

    async def serve(self, plans: Sequence[Plan]) -> None:
        """These are this worker's from now on. Raises BusUnavailable or Fenced.

        What is another worker's now stays, and is that one's to look after; what was removed goes,
        whoever owned it.
        """
        self._members = [member for plan in plans for member in members_of(plan)]
        uids, wanted = {plan.uid for plan in plans}, set(self._members)
        there = await all_members(self._control)
        stale = [
            one
            for one in there
            if one not in wanted and (one.uid in uids or await self._is_removed(one.uid))
        ]
        await self._tell(self._members, stale)

    async def run(self) -> None:
        """Puts them back until it is cancelled; raises BusUnavailable or Fenced."""
        while True:
            await asyncio.sleep(AGAIN_S)
            await self._tell(self._members)

    async def _is_removed(self, uid: str) -> bool:
        """Whether it was in service in this memory root, and is no more. One that cannot be told
        stays till the next time."""
        try:
            return await self._catalog.serving(uid) is None and bool(
                await self._catalog.versions(uid)
            )
        except (StoreBusy, StoreBroken):
            return False

    async def _tell(self, members: Collection[Member], stale: Collection[Member] = ()) -> None:
        commands = [
            command(some)
            for some, command in ((members, add_listener), (stale, remove_listener))
            if some
        ]
        if not commands:
            return
        uids = sorted({member.uid for member in (*members, *stale)})
        try:
            log_refusals(await self._writer.send(commands, len(commands)), uids)
        except BusRefused as error:  # as one does that is out of memory
            log.warning("public_swarms_not_entered", pipelines=uids, reason=str(error))


def members_of(plan: Plan) -> Iterable[Member]:
    """A pipeline on its public swarms."""
    return [Member(swarm, plan.uid, swarm in plan.hears_public) for swarm in sorted(plan.public)]
