"""The lease of a worker: it lives while the worker sends heartbeats, and owns pipelines.

Three things on the bus represent it:

- its last report, which expires without heartbeats (the lease)
- a fence, which a successor deletes, and which every MULTI of the worker watches
- its name and an epoch in the hash of each pipeline that it owns

A lease that expired while no other worker took over is valid again with the next heartbeat.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.client.resp import Word
from memrelay.bus.errors import BusRefused, Fenced
from memrelay.bus.keys import fence_key, find_worker_cell, owner_key, worker_key, workers_key
from memrelay.logs import get_logger

log = get_logger(__name__)
# How long the last heartbeat of a worker is kept after the worker ended without unregistering.
FORGET_MS = 86_400_000

# KEYS: the fence, the report, the workers, the owner hashes. ARGV: the report, its TTL in ms, the
# lease's name, FORGET_MS, the epoch of each owner hash. Returns 0 if the worker is fenced. An owner
# hash that was deleted is restored before another worker takes it.
_HEARTBEAT = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 4, #KEYS do
  local holder = redis.pcall('HGET', KEYS[i], 'worker')
  if not holder then
    redis.call('HSET', KEYS[i], 'worker', ARGV[3], 'epoch', ARGV[i + 1])
  elseif type(holder) == 'string' and holder ~= ARGV[3] then
    return 0
  end
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[3], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])
return now
"""
)

# KEYS: the fence, the workers, the owner hashes. ARGV: the lease's name, an epoch to exceed, the
# prefix of workers' keys. Returns one of: {epoch, names of workers that were fenced...},
# {0, the live worker that owns one of the pipelines}, {} if this worker is fenced.
_ACQUIRE = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local me, epoch, answer = ARGV[1], tonumber(ARGV[2]), {}
for i = 3, #KEYS do
  local holder = redis.call('HGET', KEYS[i], 'worker')
  local lease = holder and ARGV[3] .. holder
  if holder and holder ~= me and redis.call('EXISTS', lease, lease .. ':fence') == 2 then
    return {0, holder}
  end
  epoch = math.max(epoch, tonumber(redis.call('HGET', KEYS[i], 'epoch') or 0) or 0)
end
for i = 3, #KEYS do
  local holder = redis.call('HGET', KEYS[i], 'worker')
  if holder ~= me then
    local since = redis.call('HGET', KEYS[i], 'heard_until')
      or (holder and redis.call('ZSCORE', KEYS[2], holder))
    since = since and tonumber(since)
    if since then
      redis.pcall('HINCRBY', KEYS[i], 'gaps', 1)
      redis.pcall('HINCRBY', KEYS[i], 'deaf_ms', math.max(0, now - since))
    end
  end
  if holder and holder ~= me then
    redis.call('DEL', ARGV[3] .. holder, ARGV[3] .. holder .. ':fence')
    table.insert(answer, holder)
  end
  redis.call('HSET', KEYS[i], 'worker', me, 'epoch', epoch + 1)
  redis.call('HDEL', KEYS[i], 'heard_until')
end
table.insert(answer, 1, epoch + 1)
return answer
"""
)

# KEYS: the owner hashes. ARGV: the lease's name.
_RELEASE = (
    NOW
    + """
for i = 1, #KEYS do
  if redis.call('HGET', KEYS[i], 'worker') == ARGV[1] then
    redis.call('HDEL', KEYS[i], 'worker')
    redis.call('HSET', KEYS[i], 'heard_until', now)
  end
end
"""
)

# KEYS: the owner hash. ARGV: the lease's name, the field, its value.
_NOTE = """
if redis.call('HGET', KEYS[1], 'worker') == ARGV[1] then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
"""
# Field of the owner hash: the idle checkpoint (memrelay/worker/ownership/group_lease.py).
REST = "rest"


class Grant(NamedTuple):
    """The result for a group: the epoch of ownership, or 0 and the worker that owns it."""

    epoch: int
    holder: str = ""


class Lease:
    """The lease of one session of a worker.

    `name` must never be used again. The lease expires `lease_ms` after the last heartbeat.
    """

    def __init__(self, control: ReconnectingConnection, name: str, lease_ms: int) -> None:
        self._control, self.name, self._lease_ms = control, name, lease_ms
        self._workers = workers_key(find_worker_cell(name))
        self._epochs: dict[str, int] = {}  # by pipeline that it owns

    async def register(self, connections: Iterable[Connection], report: dict[str, Any]) -> None:
        """Register the lease, and name its data connections so that a successor can close them.

        NO-EVICT makes a server with `maxmemory-clients` close other clients first.
        """
        for connection in connections:
            await connection.call("CLIENT", "SETNAME", self.name)
            with suppress(BusRefused):  # the user may lack the permission
                await connection.call("CLIENT", "NO-EVICT", "ON")
        await self._control.call("SET", fence_key(self.name), 1)
        await self.send_heartbeat(report)

    async def send_heartbeat(self, report: dict[str, Any]) -> int:
        """Send a heartbeat with a report, and return the server's Unix ms.

        Raises Fenced if another worker took over.
        """
        keys = [
            fence_key(self.name),
            worker_key(self.name),
            self._workers,
            *map(owner_key, self._epochs),
        ]
        now_ms: int = await self._control.run_script(
            _HEARTBEAT,
            keys,
            orjson.dumps(report),
            self._lease_ms,
            self.name,
            FORGET_MS,
            *self._epochs.values(),
        )
        if not now_ms:
            raise Fenced("another worker fenced this one, because its lease expired; restarting")
        return now_ms

    async def acquire_each(self, groups: Sequence[Sequence[str]], at_least: int = 0) -> list[Grant]:
        """Acquire all pipelines of each group or none, in one round trip. Raises Fenced.

        The epoch of a group is above `at_least` and above every earlier epoch of its pipelines.
        """
        fixed = self.name, at_least, f"{self._workers}:"
        commands: list[tuple[Word, ...]] = []
        for uids in groups:
            keys = [fence_key(self.name), self._workers, *map(owner_key, uids)]
            commands.append(("EVAL", _ACQUIRE, len(keys), *keys, *fixed))
        grants, fenced = [], set[bytes]()
        for uids, answer in zip(groups, await self._control.call_all(commands), strict=True):
            if not answer:
                raise Fenced("another worker fenced this one, so it may own nothing; restarting")
            epoch, *names = answer
            grants.append(Grant(int(epoch)) if epoch else Grant(0, names[0].decode()))
            if epoch:
                self._epochs |= dict.fromkeys(uids, int(epoch))
                fenced.update(names)
        await self._close_connections(fenced)
        return grants

    async def release(self, uids: Iterable[str]) -> None:
        """Give up pipelines, so that another worker may acquire them."""
        released = list(uids)
        for uid in released:
            self._epochs.pop(uid, None)
        if released:
            await self._control.run_script(_RELEASE, [*map(owner_key, released)], self.name)

    async def write_idle_checkpoints(self, checkpoints: Mapping[str, bytes]) -> None:
        """Write idle checkpoints by uid. Pipelines with another owner keep theirs."""
        commands = [
            ("EVAL", _NOTE, 1, owner_key(uid), self.name, REST, checkpoint)
            for uid, checkpoint in checkpoints.items()
        ]
        await self._control.call_all(commands)

    async def declare_dead(self, name: str) -> None:
        """Fence a worker that is known to have ended, without waiting for its lease to expire."""
        await self._control.call("DEL", worker_key(name), fence_key(name))

    async def unregister(self) -> None:
        """Unregister the lease. Its pipelines must have been released."""
        await self.declare_dead(self.name)
        await self._control.call("ZREM", self._workers, self.name)

    async def _close_connections(self, names: set[bytes]) -> None:
        """Close the connections of fenced workers, so that nothing more is read from them."""
        if not names:
            return
        try:
            clients: bytes = await self._control.call("CLIENT", "LIST")
            for line in clients.splitlines():
                client = dict(word.split(b"=", 1) for word in line.split(b" ") if b"=" in word)
                if client.get(b"name") in names:
                    await self._control.call("CLIENT", "KILL", "ID", client[b"id"])
        except BusRefused as error:
            log.warning(
                "connections_left_open",
                reason=str(error),
                remedy="allow CLIENT LIST and CLIENT KILL to this user",
            )
