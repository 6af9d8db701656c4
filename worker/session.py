"""A session: the life of the connections to the bus, and of a lease. When one breaks all end, and
the next one begins anew."""

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import structlog

from memrelay.bus.client.connection import Connection, Push, Skip, connect
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusRefused, BusUnavailable
from memrelay.bus.keys import CHANGES, fence_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.lease.lease import Lease
from memrelay.bus.lease.workers import BEAT_S, read_workers
from memrelay.bus.reindex import clear_reindex_request, requested_reindexes
from memrelay.memory.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.outbox import Outbox
from memrelay.worker.deliver.public_fanout import PublicFanout
from memrelay.worker.deliver.public_members import PublicMembers
from memrelay.worker.intake.reader import Reader
from memrelay.worker.intake.subscriber import Subscriber
from memrelay.worker.intake.timers import Timers
from memrelay.worker.ownership.group_lease import GroupLease
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.group import Group, key_of
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import wait

# What a worker says of itself on the roll, and what keeps a pipeline from its work.


def describe(groups: Collection[Group], shared: WorkerContext) -> dict[str, Any]:
    """{"loop_lag_ms", "groups_recreated", "pipelines"}: as the tally has each pipeline, and how its
    group fares."""
    tally, watch = shared.tally, shared.watch
    told: dict[str, dict[str, Any]] = {}
    read = tally.read([uid for group in groups for uid in group.slots])
    for group in groups:
        fault, wal_bytes = watch.fault(group.stores), watch.wal_bytes(group.stores)
        for plan in group.plans:
            uid = plan.uid
            told[uid] = read[uid] | {
                "hash": plan.hash,
                "paused": tally.paused.get(uid) or fault,
                "wal_bytes": wal_bytes,
                "outbox_bytes": group.outbox_bytes(uid),
                "waiting": group.waiting(uid),
                "vectors_todo": group.vectors.backlog(plan.every_store),
                "vectors_fault": group.vectors.fault,
            }
    return {
        "loop_lag_ms": watch.take_lag_ms(),
        "groups_recreated": tally.recreated,
        "pipelines": told,
    }


# Sharing: which groups of pipelines each of several workers serves, so that each has about as
# many.

Members = frozenset[str]  # the uids of pipelines that share stores


class Share(NamedTuple):
    """What one worker does next."""

    keep: list[Members]  # of the groups that it serves
    may_take: list[Members]  # of those that nobody serves, at most so many as it wants


def share(
    groups: Sequence[Members], mine: frozenset[str], others: Sequence[Collection[str]]
) -> Share:
    """By the pipelines that this worker serves, and those of each of the others.

    It lets go what is above an equal share, or above the smaller one while somebody has less than
    that; then it takes what is
    free. So a worker that comes gets its share, and nothing moves once all have theirs.
    """
    workers = 1 + len(others)
    least, most = len(groups) // workers, -(-len(groups) // workers)
    held = [group for group in groups if group & mine]
    served = [sum(not group.isdisjoint(theirs) for group in groups) for theirs in others]
    if len(held) > most:
        held = held[:most]
    elif len(held) > least and any(count < least for count in served):
        held = held[:-1]
    everyones = mine.union(*others)
    free = [group for group in groups if group.isdisjoint(everyones)]
    return Share(held, free[: most - len(held)])


log = structlog.stdlib.get_logger(__name__)
STARTED_AT = time.time_ns() // 1_000_000  # Unix ms
REMAKE_S = 1.0  # between two looks whether vectors are to be made anew
IDLE_S = 5.0  # between two signs of life on the connections that may have nothing to do
LOOK_S = 0.25  # between two looks whether another worker of this host has ended


@dataclass(slots=True)
class Memory:
    """What a worker remembers from one session to the next."""

    place: HostLocks
    served: set[str] = field(
        default_factory=set
    )  # pipelines that it owned without having ended since


class Session:
    """Runs the groups of the deployed pipelines. Use it as an asynchronous context."""

    def __init__(
        self,
        address: Address,
        threads: Sequence[DatabaseThread],
        shared: WorkerContext,
        memory: Memory,
        changed: asyncio.Event,
    ) -> None:
        """`changed` is set when the control plane announces a change, or another worker comes or
        goes."""
        self._address, self._threads, self._shared = address, threads, shared
        self._memory, self._changed = memory, changed
        self._groups: dict[Group, asyncio.Task[None]] = {}
        self._others: list[str] = []  # leases of the workers of this memory root
        self._stack = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._stopped = asyncio.Event()
        self._applied = asyncio.Event()  # other pipelines are served than before

    async def __aenter__(self) -> Self:
        """Connects, and signs on; nothing stays open where that fails. Raises BusUnavailable,
        BusRefused or Fenced."""
        async with AsyncExitStack() as undo:
            undo.push_async_exit(self._stack)
            await self._open()
            undo.pop_all()
        return self

    async def _open(self) -> None:
        before, name, limits = (
            self._memory.place.last_lease,
            self._memory.place.new_lease(),
            self._shared.limits,
        )
        self._control = await self._connect()
        await self._shared.clock.look(self._control)
        writing, blocking = await self._connect(), await self._connect()
        writer, echo = FencedWriter(writing, fence_key(name)), EchoFilter()
        self._listener = Subscriber(writer, echo, self._changed, limits)
        self._listening = await self._connect(self._listener.hear, echo.skip)
        self._connections = self._control, writing, blocking, self._listening
        self._quiet = writing, blocking
        self._lease = Lease(self._control, name, int(limits.lease_s * 1000))
        self._reader = Reader((blocking, self._control), name, limits, self._shared.tally)
        self._outbox = Outbox(
            writer,
            echo,
            limits.log_length,
            PublicFanout(self._control, writer, self._shared.spread),
        )
        self._membership = PublicMembers(self._control, writer, self._shared.catalog)
        self._timers = Timers(self._control)
        if before:
            await self._lease.declare_dead(before)
        await self._lease.sign_on(self._connections, self._report())
        await writer.open()
        await self._listening.send(pack("SUBSCRIBE", CHANGES))

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._stack.aclose()

    async def run(
        self, plans: Sequence[Plan], ready: asyncio.Event, applying: Coroutine[Any, Any, None]
    ) -> None:
        """Works until `stop`; `ready` is set once the pipelines are served. Raises a group of
        BusError and others.

        `applying` is who calls `apply` and `stop` meanwhile. It ends with the first fault, as all
        do: where it went on for a
        moment it would begin with pipelines in a session that is over.
        """
        async with self._tasks as tasks:
            tasks.create_task(applying)
            beside = [
                tasks.create_task(self._watch(connection)) for connection in self._connections
            ]
            works = (
                self._reader.run,
                self._timers.run,
                self._membership.run,
                self._call_in,
                self._look_after_others,
                self._remake,
                self._keep_open,
            )
            beside += [tasks.create_task(work()) for work in works]
            await self._announce()
            await self.apply(plans)
            ready.set()
            await self._stopped.wait()
            await self._lease.sign_off()
            self._memory.place.signed_off()
            await self._control.call("PUBLISH", CHANGES, "worker")
            for task in beside:
                task.cancel()

    async def apply(self, plans: Sequence[Plan]) -> None:
        """Serves its share of these pipelines: what stays the same goes on, the rest ends at a
        batch's end or begins."""
        groups = {frozenset(plan.uid for plan in members): members for members in connected(plans)}
        mine = frozenset(uid for group in self._groups for uid in group.slots)
        keep, may_take = share(list(groups), mine, await self._theirs())
        wanted = [groups[uids] for uids in keep]
        taken = [
            tenure for uids in may_take if await (tenure := self._tenure(groups[uids])).begin()
        ]
        keys = {key_of(members) for members in wanted}
        ending = [group for group in self._groups if group.key not in keys]
        if not taken and not ending:
            return
        await self._reader.park()
        await self._read(
            group for group in self._groups if group not in ending
        )  # what these end may take long
        await self._end(ending)
        await self._reader.park()
        let_go = [
            uid for group in ending for uid in group.slots if not any(uid in uids for uids in keep)
        ]
        await self._let_go(let_go)
        await self._begin(taken + await self._again(wanted))
        if let_go:
            await self._announce()

    async def stop(self, grace_s: float) -> None:
        """Takes nothing more, and returns when all that was taken has left, or when the time is up:
        the rest is pending."""
        try:
            async with asyncio.timeout(grace_s):
                await self._reader.park()
                ending = list(self._groups)
                await self._end(ending)
                await self._let_go([uid for group in ending for uid in group.slots])
        except TimeoutError:
            log.warning(
                "stopped_with_work_pending",
                pipelines=[uid for group in self._groups for uid in group.slots],
            )
            for task in self._groups.values():
                task.cancel()
        self._stopped.set()

    def abort(self) -> None:
        """Cuts the connections: whatever waits for the server ends now."""
        for connection in self._connections:
            connection.abort()

    async def _again(self, wanted: Iterable[Sequence[Plan]]) -> list[GroupLease]:
        """What this worker owns and goes on with in another version, or with other pipelines beside
        it."""
        running, found = {group.key for group in self._groups}, []
        for members in wanted:
            if key_of(members) not in running:
                tenure = self._tenure(members)
                if await tenure.begin():
                    found.append(tenure)
                else:  # another worker has some of them: whoever comes first gets all
                    await self._let_go([plan.uid for plan in members])
        return found

    async def _let_go(self, uids: Sequence[str]) -> None:
        """These may be another worker's."""
        await self._lease.release(uids)
        self._memory.served.difference_update(uids)

    async def _theirs(self) -> list[set[str]]:
        """The pipelines of each other worker of this memory root."""
        reports = [
            one
            for one in await read_workers(self._control)
            if one["root"] == str(self._memory.place.root)
            and not self._memory.place.has_ended(one["lease"])
        ]
        others = [one for one in reports if one["lease"] != self._lease.name]
        self._others = [one["lease"] for one in others]
        return [set(one["pipelines"]) for one in others]

    async def _look_after_others(self) -> None:
        """Whoever of this host has ended is followed at once."""
        while True:
            await asyncio.sleep(LOOK_S)
            if any(map(self._memory.place.has_ended, self._others)):
                self._others = []
                self._changed.set()

    async def _call_in(self) -> None:
        """Tells every few seconds what is served, so that others can say who owns what. Raises
        Fenced."""
        while True:
            await wait(self._applied, min(BEAT_S, self._shared.limits.lease_s / 3))
            self._applied.clear()
            await self._lease.call_in(self._report())
            await self._shared.clock.look(self._control)

    async def _remake(self) -> None:
        """Whose vectors are to be made anew is asked for now and then."""
        while True:
            for uid, token in (await requested_reindexes(self._control)).items():
                if any(group.vectors.remake(token) for group in self._groups if uid in group.slots):
                    await clear_reindex_request(self._control, uid)
            await asyncio.sleep(REMAKE_S)

    async def _keep_open(self) -> None:
        """Another's server may close what is idle for a minute (its `timeout`), and the session
        would end with it."""
        while True:
            await asyncio.sleep(IDLE_S)
            for connection in self._quiet:
                with suppress(BusRefused):  # of a user who may not: a refusal is a sign of life too
                    await connection.call("PING")

    def _report(self) -> dict[str, Any]:
        place = self._memory.place
        return {"name": place.name, "root": str(place.root), "started_at": STARTED_AT} | describe(
            self._groups, self._shared
        )

    async def _announce(self) -> None:
        """The other workers look what is theirs."""
        await self._lease.call_in(self._report())
        await self._control.call("PUBLISH", CHANGES, "worker")

    def _tenure(self, plans: Sequence[Plan]) -> GroupLease:
        return GroupLease(plans, self._lease, self._memory.place, self._control)

    async def _begin(self, tenures: Sequence[GroupLease]) -> None:
        """Listens for what is served from now on, and reads it."""
        begun = [
            (Group(tenure.plans, self._idlest_thread(number), self._outbox, self._shared), tenure)
            for number, tenure in enumerate(tenures)
        ]
        served = [
            plan
            for group in [*self._groups, *[group for group, _ in begun]]
            for plan in group.plans
        ]
        asks = {
            uid: ask
            for group in [*self._groups, *[group for group, _ in begun]]
            for uid, ask in group.asked.items()
        }
        await self._listener.serve(self._listening, served, asks)
        await self._membership.serve(served)
        self._timers.serve(served)
        for group, tenure in begun:
            tenure.after_crash = not self._memory.served.issuperset(group.slots)
            self._memory.served.update(group.slots)
            made = await tenure.open()
            if not tenure.after_crash:  # they were there when this worker served them last
                self._shared.tally.recreated += made
            self._groups[group] = self._tasks.create_task(group.run(tenure))
            log.info(
                "pipelines_served",
                pipelines=list(group.slots),
                epoch=tenure.epoch,
                stores=[name for plan in tenure.plans for name in plan.stores],
            )
        self._applied.set()
        await self._read(self._groups)

    async def _read(self, groups: Iterable[Group]) -> None:
        await self._reader.serve(slot for group in groups for slot in group.slots.values())

    def _idlest_thread(self, number: int) -> DatabaseThread:
        return self._threads[(len(self._groups) + number) % len(self._threads)]

    async def _end(self, ending: Sequence[Group]) -> None:
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
    groups: dict[int, list[Plan]] = {}
    group_of: dict[str, int] = {}  # by store
    for number, plan in enumerate(plans):
        touching = sorted({group_of[store] for store in plan.every_store if store in group_of})
        one, *others = touching or [number]
        joining = [*[member for other in others for member in groups.pop(other)], plan]
        groups.setdefault(one, []).extend(joining)
        group_of |= {store: one for member in joining for store in member.every_store}
    return list(groups.values())
