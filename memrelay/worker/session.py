"""A session: the connections to the bus and a lease, with the groups that work under them.

When a connection breaks, the session ends and the worker starts a new one.
"""

import asyncio
import sys
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

from memrelay.bus.client.connection import Connection, Push, Skip, connect
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusRefused, BusUnavailable
from memrelay.bus.info import require_version
from memrelay.bus.keys import CHANGES, fence_key, input_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.lease.lease import Lease
from memrelay.bus.lease.workers import HEARTBEAT_S, fix_cells, read_server_time, read_workers
from memrelay.bus.malformed import MALFORMED
from memrelay.bus.reindex import clear_reindex_request, read_reindex_requests
from memrelay.bus.streams.log_size import LogTrimmer
from memrelay.logs import get_logger
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.outbox import Outbox
from memrelay.worker.deliver.public_fanout import PublicFanout
from memrelay.worker.deliver.public_members import PublicMembers
from memrelay.worker.intake.reader import Reader
from memrelay.worker.intake.subscriber import Subscriber
from memrelay.worker.intake.timers import Timers
from memrelay.worker.ownership.group_lease import GroupLease, begin_each, open_each
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.ownership.hung_workers import HungWorkers
from memrelay.worker.run.group import Group, create_group, make_group_key
from memrelay.worker.run.recovery import RecoveryTurns
from memrelay.worker.shared import WorkerContext
from memrelay.worker.waiting import wait

log = get_logger(__name__)
STARTED_AT_MS = time.time_ns() // 1_000_000
# Pause between two looks for requested reindexes.
REINDEX_PAUSE_S = 1.0
# Pause between two commands on connections that are otherwise idle.
PING_PAUSE_S = 5.0
# Pause between two looks for workers of this host that have ended.
OTHERS_PAUSE_S = 0.25
# Pause between two looks for hung workers.
HUNG_PAUSE_S = 0.5
# Part of the grace time in which a worker awaits running deferred calls of pipelines that it gives
# up.
DEFERRED_CALLS_SHARE = 0.5
# So many groups recover for longer than a moment, so their reports show it.
MANY_GROUPS = 50


@dataclass(slots=True)
class SessionMemory:
    """State of a worker that outlives a session.

    `served` are the pipelines that it owned without a crash since. `trusts_rest` is whether rest
    notes replace the recovery.
    """

    host_locks: HostLocks
    served: set[str] = field(default_factory=set)
    trusts_rest: bool = True


class Session:
    """Runs the groups of the deployed pipelines, as an asynchronous context.

    `changed` is set when the control plane announces a change, or a worker starts or ends.
    """

    def __init__(
        self,
        address: Address,
        threads: Sequence[DatabaseThread],
        shared: WorkerContext,
        memory: SessionMemory,
        changed: asyncio.Event,
    ) -> None:
        self._address, self._threads, self._shared = address, threads, shared
        self._memory, self._changed = memory, changed
        self._groups: dict[Group, asyncio.Task[None]] = {}
        self._turns = RecoveryTurns()
        # Leases of the other workers.
        self._other_leases: list[str] = []
        self._stack = AsyncExitStack()
        self._tasks = asyncio.TaskGroup()
        self._stopped = asyncio.Event()
        # Set when the worker serves other pipelines than before.
        self._applied = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Connect and register the worker.

        Raises BusUnavailable, BusRefused, Fenced and ServerTooOld.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_exit(self._stack)
            await self._open()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        shared, limits, host_locks = self._shared, self._shared.limits, self._memory.host_locks
        before, name = host_locks.last_lease, host_locks.new_lease()
        self._control = await self._stack.enter_async_context(ReconnectingConnection(self._address))
        await require_version(self._control)
        await fix_cells(self._control)
        await shared.clock.look(partial(read_server_time, self._control))
        writing, blocking = await self._connect(), await self._connect()
        writer, echo = FencedWriter(writing, fence_key(name)), EchoFilter()
        log_trimmer = LogTrimmer(writer, limits.log_bytes)
        self._subscriber = Subscriber(writer, echo, self._changed, limits, log_trimmer)
        self._subscribed = await self._connect(self._subscriber.receive, echo.skip)
        self._connections = writing, blocking, self._subscribed
        self._quiet = writing, blocking
        self._lease = Lease(self._control, name, int(limits.lease_s * 1000))
        self._reader = Reader((blocking, writing), self._control, name, limits, shared.metrics)
        public_fanout = PublicFanout(self._control, writer, shared.public_limit)
        self._outbox = Outbox(writer, echo, limits.log_length, public_fanout, log_trimmer)
        self._public_members = PublicMembers(self._control, writer, shared.catalog)
        self._timers = Timers(self._control, lambda: shared.clock.now_ms, self._has_deferred_call)
        if before:
            await self._lease.declare_dead(before)
        await self._lease.register(self._connections, self._describe_worker())
        await writer.open()
        await self._subscribed.send(pack("SUBSCRIBE", CHANGES))

    async def run(
        self, plans: Sequence[Plan], ready: asyncio.Event, applying: Coroutine[Any, Any, None]
    ) -> None:
        """Work until `stop`. Set `ready` once the pipelines are served.

        `applying` calls `apply` and `stop`. It ends with the first fault, like everything else:
        otherwise it could start pipelines in a session that is over. Raises a group of BusError and
        others.
        """
        async with self._tasks as tasks:
            tasks.create_task(applying)
            background = [
                tasks.create_task(self._watch(connection)) for connection in self._connections
            ]
            works = (
                self._reader.run,
                self._timers.run,
                self._public_members.run,
                self._send_heartbeats,
                self._watch_other_workers,
                self._start_reindexes,
                self._end_hung_workers,
                self._keep_connections_open,
                partial(self._shared.replication.watch, self._control, self._groups.__len__),
            )
            background += [tasks.create_task(work()) for work in works]
            await self._announce()
            await self.apply(plans)
            ready.set()
            await self._stopped.wait()
            await self._lease.unregister()
            self._memory.host_locks.mark_signed_off()
            await self._control.call("PUBLISH", CHANGES, "worker")
            for task in background:
                task.cancel()

    async def sort_by_traffic(self, uids: Sequence[str]) -> list[str]:
        """Return the pipelines whose inputs have entries, then the others."""
        commands = [("XLEN", input_key(uid)) for uid in uids]
        lengths = await self._control.call_all(commands, keep_refusals=True)
        has_entries = {uid: bool(length) for uid, length in zip(uids, lengths, strict=True)}
        return sorted(uids, key=lambda uid: not has_entries[uid])

    async def apply(self, plans: Sequence[Plan]) -> None:
        """Serve this worker's share of the pipelines.

        Unchanged groups go on. The others end after their batch, or begin.
        """
        groups = {
            frozenset(plan.uid for plan in members): members for members in group_by_store(plans)
        }
        mine = frozenset(uid for group in self._groups for uid in group.slots)
        keep, may_take = balance(list(groups), mine, await self._read_others())
        wanted = [groups[uids] for uids in keep]
        leases = [self._new_lease(groups[uids]) for uids in may_take]
        taken = await begin_each(leases)
        keys = {make_group_key(members) for members in wanted}
        ending = [group for group in self._groups if group.key not in keys]
        if not taken and not ending:
            return
        await self._reader.park()
        # The others are read on, because the end of a group may take long.
        await self._read(group for group in self._groups if group not in ending)
        released = [
            uid for group in ending for uid in group.slots if not any(uid in uids for uids in keep)
        ]
        await self._end(ending, released)
        await self._reader.park()
        await self._release(released)
        await self._begin(taken + await self._renew(wanted))
        if released:
            await self._announce()

    async def stop(self, grace_s: float) -> None:
        """Take nothing more, and return when all results are on the bus or the time is over.

        Unfinished messages stay pending.
        """
        try:
            async with asyncio.timeout(grace_s):
                await self._reader.park()
                ending = list(self._groups)
                uids = [uid for group in ending for uid in group.slots]
                await self._end(ending, uids)
                await self._release(uids)
        except TimeoutError:
            log.warning(
                "stopped_with_work_pending",
                pipelines=[uid for group in self._groups for uid in group.slots],
            )
            for task in self._groups.values():
                task.cancel()
        self._stopped.set()

    def abort(self) -> None:
        """Cut the connections, so that every wait for the server ends."""
        for connection in self._connections:
            connection.abort()

    async def _renew(self, wanted: Iterable[Sequence[Plan]]) -> list[GroupLease]:
        """Return new leases for pipelines that go on in another version or grouping."""
        running, renewed = {group.key for group in self._groups}, []
        for members in wanted:
            if make_group_key(members) not in running:
                lease = self._new_lease(members)
                if await lease.begin():
                    renewed.append(lease)
                else:  # another worker has some of them, and can take the others
                    await self._release([plan.uid for plan in members])
        return renewed

    async def _release(self, uids: Sequence[str]) -> None:
        """Let other workers take these pipelines."""
        await self._lease.release(uids)
        self._memory.served.difference_update(uids)

    async def _read_others(self) -> list[set[str]]:
        """Return the pipelines of each other worker with the same stores."""
        host_locks = self._memory.host_locks
        others = [
            report
            for report in await read_workers(self._control)
            if report.get("storage") == self._shared.storage
            and not host_locks.has_ended(report["lease"])
            and report["lease"] != self._lease.name
        ]
        self._other_leases = [report["lease"] for report in others]
        return [set(report["pipelines"]) for report in others]

    async def _watch_other_workers(self) -> None:
        """Take over at once from workers of this host that have ended."""
        while True:
            await asyncio.sleep(OTHERS_PAUSE_S)
            if any(map(self._memory.host_locks.has_ended, self._other_leases)):
                self._other_leases = []
                self._changed.set()

    async def _send_heartbeats(self) -> None:
        """Report every few seconds which pipelines are served. Raises Fenced."""
        while True:
            await wait(self._applied, min(HEARTBEAT_S, self._shared.limits.lease_s / 3))
            self._applied.clear()
            report = self._describe_worker()
            await self._shared.clock.look(partial(self._lease.send_heartbeat, report))
            if left := self._turns.unfinished:
                log.info("pipelines_recovering", left=left, groups=len(self._groups))

    async def _start_reindexes(self) -> None:
        while True:
            requests = await read_reindex_requests(self._control) if self._groups else {}
            for uid, token in requests.items():
                groups = [group for group in self._groups if uid in group.slots]
                if any(group.vectors.reindex(token) for group in groups):
                    await clear_reindex_request(self._control, uid)
            await asyncio.sleep(REINDEX_PAUSE_S)

    async def _end_hung_workers(self) -> None:
        """Free the stores that a worker of this host locks although it lost its lease."""
        hung = HungWorkers(self._memory.host_locks, self._control)
        while sys.platform == "linux":
            paused = self._shared.metrics.paused
            busy = [
                name
                for group in self._groups
                if not paused.keys().isdisjoint(group.slots)
                for name in group.stores
            ]
            with suppress(BusRefused):
                await hung.look(busy)
            await asyncio.sleep(HUNG_PAUSE_S)

    async def _keep_connections_open(self) -> None:
        """Use idle connections: a server may close them after its `timeout`."""
        while True:
            await asyncio.sleep(PING_PAUSE_S)
            for connection in self._quiet:
                with suppress(BusRefused):  # a refusal keeps the connection open too
                    await connection.call("PING")

    def _has_deferred_call(self, uid: str, alias: str) -> bool:
        return any(
            group.has_deferred_call(uid, alias) for group in self._groups if uid in group.slots
        )

    def _describe_worker(self) -> dict[str, Any]:
        host_locks = self._memory.host_locks
        about = {
            "name": host_locks.name,
            "storage": self._shared.storage,
            "started_at": STARTED_AT_MS,
        }
        return about | describe_groups(self._groups, self._shared)

    async def _announce(self) -> None:
        """Make the other workers recompute their share."""
        await self._lease.send_heartbeat(self._describe_worker())
        await self._control.call("PUBLISH", CHANGES, "worker")

    def _new_lease(self, plans: Sequence[Plan]) -> GroupLease:
        return GroupLease(plans, self._lease, self._memory.host_locks, self._control)

    async def _begin(self, leases: Sequence[GroupLease]) -> None:
        """Subscribe to the channels of all pipelines, and start the groups of these leases."""
        begun = []
        for number, lease in enumerate(leases, len(self._groups)):
            thread = self._threads[number % len(self._threads)]
            begun.append((create_group(lease.plans, thread, self._outbox, self._shared), lease))
        groups = [*self._groups, *[group for group, _ in begun]]
        served = [plan for group in groups for plan in group.plans]
        handlers = {uid: handle for group in groups for uid, handle in group.query_handlers.items()}
        await self._subscriber.serve(self._subscribed, served, handlers)
        await self._public_members.serve(served)
        self._timers.serve(served)
        await self._open_inputs(begun)
        # Pipelines with traffic come first.
        for group, lease in sorted(begun, key=lambda one: not one[1].waiting):
            self._start(group, lease)
        self._applied.set()
        await self._read(self._groups)

    async def _open_inputs(self, begun: Sequence[tuple[Group, GroupLease]]) -> None:
        """Prepare the inputs of groups for reading."""
        for again in (True, False):  # whether this worker served the pipelines before
            leases = [
                lease
                for group, lease in begun
                if self._memory.served.issuperset(group.slots) == again
            ]
            created = await open_each(leases, self._control) if leases else 0
            # Some consumer groups are missing that this worker had created.
            self._shared.metrics.recreated += created if again else 0

    def _start(self, group: Group, lease: GroupLease) -> None:
        lease.after_crash = not self._memory.served.issuperset(group.slots)
        self._memory.served.update(group.slots)
        lease.may_rest = self._memory.trusts_rest
        lease.is_shared = self._shared.storage != str(self._memory.host_locks.root)
        self._groups[group] = self._tasks.create_task(group.run(lease, self._turns))
        log.info(
            "pipelines_served",
            pipelines=list(group.slots),
            epoch=lease.epoch,
            stores=[name for plan in lease.plans for name in plan.stores],
        )

    async def _read(self, groups: Iterable[Group]) -> None:
        await self._reader.serve(slot for group in groups for slot in group.slots.values())

    async def _end(self, ending: Sequence[Group], released: Collection[str]) -> None:
        """End groups. The deferred calls of pipelines that this worker goes on to serve run on."""
        deferred_calls_s = self._shared.limits.grace_s * DEFERRED_CALLS_SHARE
        for group in ending:
            is_released = not group.slots.keys().isdisjoint(released)
            group.stop(deferred_calls_s if is_released else 0.0)
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


def describe_groups(groups: Collection[Group], shared: WorkerContext) -> dict[str, Any]:
    """Return {"loop_lag_ms", "groups_recreated", "malformed", "latency", "pipelines"}.

    Each pipeline has its metrics and the state of its group.
    """
    metrics, watchdog = shared.metrics, shared.watchdog
    pipelines: dict[str, dict[str, Any]] = {}
    counts = metrics.read([uid for group in groups for uid in group.slots])
    left = sum(group.is_recovering for group in groups)
    progress = f"it recovers after a start; {left} of {len(groups)} groups of pipelines are left"
    for group in groups:
        fault = watchdog.fault(group.stores)
        fault = fault or (progress if group.is_recovering and left >= MANY_GROUPS else "")
        for plan in group.plans:
            count = counts[plan.uid]
            pipelines[plan.uid] = count | {
                "paused": metrics.paused.get(plan.uid) or fault,
                **watchdog.store_sizes(plan.uid, plan.all_stores, count["in"])._asdict(),
                **_describe_pipeline(plan, group),
            }
    return {
        "loop_lag_ms": watchdog.take_lag_ms(),
        "groups_recreated": metrics.recreated,
        "latency": {
            "commit": metrics.commit_latency.read(),
            "publish": metrics.publish_latency.read(),
        },
        "malformed": MALFORMED.messages,
        "pipelines": pipelines,
    }


def _describe_pipeline(plan: Plan, group: Group) -> dict[str, Any]:
    deliveries = group.describe_deliveries(plan)
    return ({"deliveries": deliveries} if deliveries else {}) | {
        "hash": plan.hash,
        "outbox_bytes": group.outbox_bytes(plan.uid),
        "waiting": group.count_delayed(plan.uid),
        "changes": group.count_changes(plan),
        "searches": group.count_searches(plan.uid),
        "errands": group.count_deferred_calls(plan.uid),
        "vectors_todo": group.vectors.backlog(plan.all_stores),
        "vectors_fault": group.vectors.fault,
        "erasure_pending": group.has_open_erasure,
        "erasure_fault": group.erasure_fault,
    }


# The uids of pipelines that share stores.
Members = frozenset[str]


class Balance(NamedTuple):
    """The groups that a worker keeps, and the free ones that it may take."""

    keep: list[Members]
    may_take: list[Members]


def balance(
    groups: Sequence[Members], mine: frozenset[str], others: Sequence[Collection[str]]
) -> Balance:
    """Share groups among workers, so that each has about as many.

    `mine` are the pipelines of this worker, `others` those of each other worker. A worker releases
    what is above an equal share. It also releases a group above the smaller share while another
    worker has less than that. So a new worker gets its share, and nothing moves after that.
    """
    workers = 1 + len(others)
    least, most = len(groups) // workers, -(-len(groups) // workers)
    held = [group for group in groups if group & mine]
    served = [sum(not group.isdisjoint(other) for group in groups) for other in others]
    if len(held) > most:
        held = held[:most]
    elif len(held) > least and any(count < least for count in served):
        held = held[:-1]
    taken = mine.union(*others)
    free = [group for group in groups if group.isdisjoint(taken)]
    return Balance(held, free[: most - len(held)])


def group_by_store(plans: Iterable[Plan]) -> list[list[Plan]]:
    """Group plans that share stores, in the order in which they come."""
    groups: dict[int, list[Plan]] = {}
    group_of: dict[str, int] = {}  # by store
    for number, plan in enumerate(plans):
        touching = sorted({group_of[store] for store in plan.all_stores if store in group_of})
        one, *others = touching or [number]
        joining = [*[member for other in others for member in groups.pop(other)], plan]
        groups.setdefault(one, []).extend(joining)
        group_of |= {store: one for member in joining for store in member.all_stores}
    return list(groups.values())
