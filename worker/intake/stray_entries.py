"""Entries that are with nobody: another program read them by the owner's group, or moved the group
on.

They are in the input and are read no more; only the next session of the worker would find them. And
inputs with an id from the
future, which somebody has set.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from itertools import islice

import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import GROUP, input_key
from memrelay.bus.streams.stream_ids import renew
from memrelay.worker.intake.reader import Slot, last_delivered, undone
from memrelay.worker.run.group import Group

log = structlog.stdlib.get_logger(__name__)
LOOK_S = 2.0
TOGETHER = 100  # inputs a look, and entries of one: a worker may have thousands of pipelines
REMEDY = f"let no other program use the consumer group `{GROUP}`; `memrelay doctor` names who reads by it"


class StrayEntries:
    """Looks into the inputs of groups that have nothing to do, a hundred at a time."""

    def __init__(
        self, control: ReconnectingConnection, consumer: str, groups: Collection[Group]
    ) -> None:
        """`consumer` is the lease's name; `groups` are those that run, at any time."""
        self._control, self._consumer, self._groups = control, consumer, groups
        self._suspects: dict[
            str, bytes
        ] = {}  # by pipeline: as far as its input was read when something was left in it
        self._turn = 0

    async def run(self) -> None:
        """Until it is cancelled; raises BusUnavailable."""
        while True:
            await asyncio.sleep(LOOK_S)
            idle = {
                uid: (group, slot)
                for group in self._groups
                if group.idle
                for uid, slot in group.slots.items()
            }
            suspects, self._suspects = self._suspects, {}
            for uid in {*suspects, *islice(idle, self._turn, self._turn + TOGETHER)} & idle.keys():
                with suppress(
                    BusRefused
                ):  # as where it is no stream, or gone: who reads it finds that out
                    await self._look(*idle[uid], suspects.get(uid, b""))
            self._turn = self._turn + TOGETHER if self._turn + TOGETHER < len(idle) else 0

    async def _look(self, group: Group, slot: Slot, before: bytes) -> None:
        """What was read before the last look, when the group had nothing to do either, is on its
        way to nobody."""
        uid = slot.plan.uid
        if not await self._control.call("XLEN", input_key(uid)):
            await renew(self._control, uid)
        elif not before:
            self._suspects[uid] = await last_delivered(self._control, slot.plan)
        elif (
            entries := await undone(self._control, slot, before, self._consumer, TOGETHER)
        ) and group.idle:
            log.warning(
                "entries_overlooked",
                pipeline=uid,
                count=len(entries),
                message_id=entries[0].id,
                remedy=REMEDY,
            )
            group.pick_up(entries)
