"""The lease of a group: a worker owns the group's pipelines under one fencing epoch.

The bus also remembers the last acknowledged commit of each store, so that a store that lost
commits is detected. `pipeline:{uid}:stores` is a hash from `memory_id` to the store's mark
(memrelay/memory/engine/connection.py).
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.errors import Fenced
from memrelay.bus.keys import GROUP, input_key, owner_key, stores_key
from memrelay.bus.lease.lease import REST, Lease
from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.memory_id import is_memory_id, store_path
from memrelay.pipelines.plan import Plan
from memrelay.worker.intake.reader import (
    Slot,
    create_consumer_groups,
    find_last_delivered,
    pack_deletions,
    read_unfinished,
)
from memrelay.worker.ownership.host_locks import HostLocks
from memrelay.worker.run.inputs import Entry, parse_arrival

# Other values in the hash are not marks, and are ignored.
MARK = re.compile(rb"[ -9;-~]*:[0-9]{1,18}")
# Stores that need vectors, and the fingerprints of the searched vectors by store.
VectorState = tuple[list[str], dict[str, str], str]
# Entries that are read together during recovery.
ENTRIES_TOGETHER = 256


class IdleCheckpoint(msgspec.Struct, frozen=True):
    """The owner's proof that nothing is pending in a pipeline's stores.

    The owner writes it on the bus when the pipeline is idle and its store files are closed. As long
    as the files, the bundle and the input are the same, a later owner need not open the stores
    before the first message.

    `files` has the state of each store's file, "" if it does not exist. Something expires at
    `due_ms` (Unix ms), None for never. `wanted` are the stores that need vectors. `fingerprints`
    belong to the searched vectors, and `embedder` is the configured one. `epoch` is that of the
    owner.
    """

    bundle: str
    files: dict[str, str]
    due_ms: int | None
    wanted: list[str]
    fingerprints: dict[str, str]
    embedder: str
    epoch: int = 0


class GroupLease:
    """Lasts until the worker releases the pipelines or another worker takes them over."""

    def __init__(
        self,
        plans: Sequence[Plan],
        lease: Lease,
        host_locks: HostLocks,
        control: ReconnectingConnection,
    ) -> None:
        self.plans, self.uids = plans, sorted(plan.uid for plan in plans)
        self.lease, self.host_locks, self.control = lease, host_locks, control
        self.epoch = 0
        # By pipeline: the last entry ID that was read before.
        self._last: dict[str, bytes] = {}
        # Pipelines whose input is not empty, and those with entries that were read before.
        self.waiting: set[str] = set()
        self.unfinished: set[str] = set()
        # Each store with its last commit that the bus knows.
        self.commits: list[tuple[str, str]] = []
        self._checkpoints: dict[str, IdleCheckpoint | None] = {}
        # Whether idle checkpoints count.
        self.may_rest = True
        # Whether workers of other hosts may own the stores: their commits do not change the files
        # here, so a checkpoint counts only if no other worker was the owner since.
        self.is_shared = False
        # Whether attempts of inputs in flight are counted, because one may have ended the process.
        self.after_crash = True

    async def begin(self, at_least: int = 0) -> bool:
        """Return whether this worker owns all of the pipelines now. Raises Fenced."""
        return bool(await begin_each([self], at_least))

    async def surpass(self, epoch: int) -> None:
        """Continue under an epoch above that of a store. Raises Fenced for a new owner."""
        if not await self.begin(epoch):
            raise Fenced("another worker took over these pipelines; this one reconnects")

    def may_reuse_ids(self, uid: str, known: tuple[int, int]) -> bool:
        """Return whether the input may assign an ID again that a store knows."""
        return known > parse_arrival(self._last[uid].decode())

    async def read_unfinished(self, slot: Slot) -> list[Entry]:
        """Return some of the entries that any worker has read and none has finished."""
        uid = slot.plan.uid
        if uid not in self.unfinished:
            return []
        return await read_unfinished(self.control, slot, self._last[uid], ENTRIES_TOGETHER)

    def note_input(self, uid: str, length: int, groups: Any) -> None:
        """Note how many entries an input has, and what its consumer groups have read."""
        self._last[uid] = find_last_delivered(groups)
        if length:
            self.waiting.add(uid)

    def pack_first_read(self, uid: str) -> tuple[str | bytes | int, ...]:
        """Return the command that reads the first entry that any worker has read."""
        return "XRANGE", input_key(uid), "-", self._last[uid], "COUNT", 1

    def find_idle_checkpoint(self) -> IdleCheckpoint | None:
        """Return the valid checkpoint of the whole group, None if its stores must be opened."""
        checkpoints = [self._checkpoints.get(plan.uid) for plan in self.plans]
        valid = [
            checkpoint
            for plan, checkpoint in zip(self.plans, checkpoints, strict=True)
            if checkpoint is not None
            and checkpoint.bundle == plan.hash
            and checkpoint.files == describe_files(self.host_locks.root, plan.all_stores)
            and (not self.is_shared or checkpoint.epoch == self.epoch - 1)
        ]
        if self.unfinished or len(valid) < len(checkpoints) or not self.may_rest:
            return None
        return reduce(_merge, valid)

    def remember_checkpoint(self, uid: str, data: bytes | None) -> None:
        """Remember the idle checkpoint that the server has for a pipeline."""
        self._checkpoints[uid] = parse_checkpoint(data)

    async def write_rest(self, due_ms: int | None, vectors: VectorState) -> bool:
        """Write idle checkpoints, after the stores were closed.

        Return whether the files allow it.
        """
        data = {}
        for plan in self.plans:
            files = describe_files(self.host_locks.root, plan.all_stores)
            if files is None:
                return False
            data[plan.uid] = msgspec.json.encode(
                IdleCheckpoint(plan.hash, files, due_ms, *vectors, epoch=self.epoch)
            )
        await self.lease.write_idle_checkpoints(data)
        return True


async def begin_each(leases: Sequence[GroupLease], at_least: int = 0) -> list[GroupLease]:
    """Begin several leases of one worker. Return those that it has now. Raises Fenced."""
    begun, left = list[GroupLease](), list(leases)
    while left:
        first, refused = left[0], dict[str, list[GroupLease]]()
        grants = await first.lease.acquire_each([lease.uids for lease in left], at_least)
        for lease, grant in zip(left, grants, strict=True):
            lease.epoch = grant.epoch
            if grant.epoch:
                begun.append(lease)
            else:
                refused.setdefault(grant.holder, []).append(lease)
        left = []
        for holder, theirs in refused.items():
            if first.host_locks.has_ended(holder):
                await first.lease.declare_dead(holder)
                left += theirs
    return begun


async def open_each(leases: Sequence[GroupLease], control: ReconnectingConnection) -> int:
    """Prepare the inputs of several leases for reading. Return how many had no consumer group."""
    uids = [uid for lease in leases for uid in lease.uids]
    of_uid = {uid: lease for lease in leases for uid in lease.uids}
    created = await create_consumer_groups(control, [input_key(uid) for uid in uids])
    commands: list[tuple[str, ...]] = []
    for uid in uids:
        commands += (
            ("XLEN", input_key(uid)),
            ("XINFO", "GROUPS", input_key(uid)),
            ("XINFO", "CONSUMERS", input_key(uid), GROUP),
            ("HGETALL", stores_key(uid)),
            ("HGET", owner_key(uid), REST),
        )
    replies, deletions = await control.call_all(commands), list[tuple[str, ...]]()
    for number, uid in enumerate(uids):
        length, groups, consumers, marks, rest = replies[5 * number : 5 * number + 5]
        of_uid[uid].note_input(uid, length, groups)
        of_uid[uid].remember_checkpoint(uid, rest)
        of_uid[uid].commits += parse_marks(marks)
        deletions += pack_deletions(input_key(uid), consumers, of_uid[uid].lease.name)
    if deletions:
        await control.call_all(deletions)
    waiting = [uid for lease in leases for uid in sorted(lease.waiting)]
    reads = [of_uid[uid].pack_first_read(uid) for uid in waiting]
    for uid, entries in zip(waiting, await control.call_all(reads), strict=True):
        if entries:
            of_uid[uid].unfinished.add(uid)
    return created


def pack_marks(plans: Iterable[Plan], marks: Mapping[str, str]) -> list[bytes]:
    """Return the commands that record commits, for the MULTI that acknowledges their inputs.

    `marks` has the last commit of each store.
    """
    commands = []
    for plan in plans:
        words: list[str] = []
        for name in plan.all_stores:
            if name in marks:
                words += name, marks[name]
        if words:
            commands.append(pack("HSET", stores_key(plan.uid), *words))
    return commands


def parse_marks(words: Sequence[bytes]) -> list[tuple[str, str]]:
    """Return (memory_id, mark) of each mark in a hash from the server."""
    found = []
    for name, mark in zip(words[::2], words[1::2], strict=True):
        memory_id = name.decode(errors="replace")
        if is_memory_id(memory_id) and MARK.fullmatch(mark):
            found.append((memory_id, mark.decode()))
    return found


def parse_checkpoint(data: bytes | None) -> IdleCheckpoint | None:
    """Return the checkpoint in a reply of the server; None for none and for a malformed one."""
    try:
        return msgspec.json.decode(data, type=IdleCheckpoint) if data else None
    except msgspec.DecodeError:
        return None


def describe_files(root: Path, names: Collection[str]) -> dict[str, str] | None:
    """Return the state of each store's file; None if one may be open for writes or damaged."""
    found = {name: _describe_file(store_path(root, name)) for name in names}
    return None if None in found.values() else {name: state or "" for name, state in found.items()}


def _merge(one: IdleCheckpoint, other: IdleCheckpoint) -> IdleCheckpoint:
    due_ms = [due for due in (one.due_ms, other.due_ms) if due is not None]
    return IdleCheckpoint(
        "",
        one.files | other.files,
        min(due_ms, default=None),
        [*one.wanted, *other.wanted],
        one.fingerprints | other.fingerprints,
        one.embedder,
    )


def _describe_file(path: Path) -> str | None:
    """Return the inode, size and time of a file without a log; None if it has a log or a note."""
    if note_of(path).exists():
        return None
    try:
        if os.stat(f"{path}-wal").st_size:
            return None
    except FileNotFoundError:
        pass
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}"
