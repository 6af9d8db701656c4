"""A session: the life of the connections to the bus. When one breaks all end, and the next one begins with what is pending."""
import asyncio
import os
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Self

import structlog

from bus.address import Address
from bus.connection import Connection, Push, Skip, connect
from bus.echo import Echo
from bus.errors import BusUnavailable
from bus.resp import pack
from bus.roll import BEAT_S, call_in, sign_off
from bus.wire import CHANGES, input_key
from memory.threads import DatabaseThread
from pipelines.plan import Plan
from worker.group import Group, Surroundings
from worker.inputs import Entry
from worker.listener import Listener
from worker.outbox import Outbox
from worker.reader import Reader, claim, create_group
from worker.slot import Slot
from worker.waiting import wait

log = structlog.get_logger()
NAME = f"{socket.gethostname()}:{os.getpid()}"   # of this worker, among all of a bus
STARTED_AT = time.time_ns() // 1_000_000   # Unix ms


class Session:
    """Runs the groups of the deployed pipelines. Use it as an asynchronous context."""

    def __init__(self, address: Address, threads: Sequence[DatabaseThread], shared: Surroundings, *,
                 after_crash: bool, changed: asyncio.Event) -> None:
        """`after_crash`: what is pending is run one by one. `changed` is set when the control plane announces a change."""
        self._address, self._threads, self._shared = address, threads, shared
        self._after_crash, self._changed = after_crash, changed
        self._groups: dict[Group, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._stopped = asyncio.Event()
        self._applied = asyncio.Event()   # other pipelines are served than before

    async def __aenter__(self) -> Self:
        """Connects. Raises BusUnavailable or BusRefused."""
        self._control = await self._connect()
        self._writing = await self._connect()
        self._blocking = await self._connect()
        echo = Echo()
        self._listener = Listener(self._writing, echo, self._changed)
        self._listening = await self._connect(self._listener.hear, echo.skip)
        self._reader = Reader(self._blocking, self._control, self._shared.limits)
        self._outbox = Outbox(self._writing, echo, self._shared.limits.log_length)
        await self._listening.send(pack("SUBSCRIBE", CHANGES))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._stack.aclose()

    async def run(self, plans: Sequence[Plan], ready: asyncio.Event) -> None:
        """Works until `stop`; `ready` is set once the pipelines are served. Raises a group of BusUnavailable and others."""
        connections = self._control, self._writing, self._blocking, self._listening
        async with self._tasks as tasks:
            beside = [tasks.create_task(self._watch(connection)) for connection in connections]
            beside += [tasks.create_task(self._reader.run()), tasks.create_task(self._call_in())]
            await self.apply(plans)
            self._after_crash = False
            ready.set()
            await self._stopped.wait()
            await sign_off(self._control, NAME)
            for task in beside:
                task.cancel()

    async def apply(self, plans: Sequence[Plan]) -> None:
        """Makes these the pipelines: what stays the same goes on, the rest ends at a batch's end or begins."""
        wanted = {frozenset((plan.uid, plan.hash) for plan in plans_): plans_ for plans_ in connected(plans)}
        if wanted.keys() == {group.key for group in self._groups}:
            return
        await self._reader.park()
        await self._end([group for group in self._groups if group.key not in wanted])
        running = {group.key for group in self._groups}
        await self._listener.serve(self._listening, list(plans))
        for number, (key, members) in enumerate(wanted.items()):
            if key not in running:
                await self._begin(members, self._threads[number % len(self._threads)])
        self._applied.set()
        await self._reader.serve(slot for group in self._groups for slot in group.slots.values())

    async def stop(self, grace_s: float) -> None:
        """Takes nothing more, and returns when all that was taken has left, or when the time is up: the rest is pending."""
        try:
            async with asyncio.timeout(grace_s):
                await self._reader.park()
                await self._end(list(self._groups))
        except TimeoutError:
            log.warning("stopped_with_work_pending", pipelines=[uid for group in self._groups for uid in group.slots])
            for task in self._groups.values():
                task.cancel()
        self._stopped.set()

    async def _call_in(self) -> None:
        """Tells every few seconds what is served, so that others can say who owns what."""
        while True:
            uids = [uid for group in self._groups for uid in group.slots]
            report = {"name": NAME, "started_at": STARTED_AT, "pipelines": self._shared.tally.read(uids)}
            await call_in(self._control, NAME, report, time.time_ns() // 1_000_000)
            await wait(self._applied, BEAT_S)
            self._applied.clear()

    async def _begin(self, plans: Sequence[Plan], thread: DatabaseThread) -> None:
        group = Group(plans, thread, self._outbox, self._shared)
        for plan in plans:
            await create_group(self._control, input_key(plan.uid))
        self._groups[group] = self._tasks.create_task(group.run(self._claim, self._after_crash))
        log.info("pipelines_served", pipelines=list(group.slots), stores=[name for plan in plans for name in plan.stores])

    async def _claim(self, slot: Slot) -> list[Entry]:
        return await claim(self._control, slot, self._shared.limits.batch)

    async def _end(self, groups: Iterable[Group]) -> None:
        ending = list(groups)
        for group in ending:
            group.stop()
        for group in ending:
            await asyncio.shield(self._groups[group])
            del self._groups[group]

    async def _connect(self, on_push: Push | None = None, skip: Skip | None = None) -> Connection:
        connection = await connect(self._address, on_push, skip)
        self._stack.push_async_callback(connection.close)
        return connection

    async def _watch(self, connection: Connection) -> None:
        await asyncio.shield(connection.closed)
        raise BusUnavailable("the connection to the server broke")


def connected(plans: Iterable[Plan]) -> list[list[Plan]]:
    """Plans that share stores, together; in the order in which they come."""
    together: list[tuple[set[str], list[Plan]]] = []
    for plan in plans:
        stores, members = set(plan.stores), [plan]
        for touching in [one for one in together if one[0] & stores]:
            together.remove(touching)
            stores |= touching[0]
            members = touching[1] + members
        together.append((stores, members))
    return [members for _, members in together]
