"""A worker's lease: alive as long as it calls in, owner of pipelines under an epoch, and fenced
once it is taken for dead.

Three things stand for it on the bus: what it said last, which expires (the lease); a fence, which
whoever takes it for dead
deletes, and which every MULTI of its own watches; and its name in the hash of each pipeline that it
owns. A lease that ran out
while nobody took it for dead comes back by itself.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import orjson
import structlog

from memrelay.bus.client.connection import NOW, Connection, run_script
from memrelay.bus.client.resp import pack
from memrelay.bus.errors import BusRefused, Fenced
from memrelay.bus.keys import ROLL, fence_key, owner_key, worker_key

log = structlog.stdlib.get_logger(__name__)
FORGET_MS = 86_400_000  # how long it is known when a worker that vanished was heard last

# KEYS: fence, what it says, roll, the hashes of whom it owns. ARGV: its words, how long they hold
# in ms, its name, FORGET_MS, and the epochs under which it owns them. An owner's hash that somebody
# has deleted is made again, before another one takes it.
_CALL_IN = (
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
return 1
"""
)

# KEYS: fence, roll, the owners' hashes. ARGV: its name, an epoch to be surpassed, how the keys of
# workers begin. Returns {epoch, the names of those who were taken for dead...}, {0, who lives and
# owns one of them}, or {} where it is fenced.
_ACQUIRE = (
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local me, epoch, answer = ARGV[1], tonumber(ARGV[2]), {}
for i = 3, #KEYS do
  local holder = redis.call('HGET', KEYS[i], 'worker')
  local words = holder and ARGV[3] .. holder
  if holder and holder ~= me and redis.call('EXISTS', words, words .. ':fence') == 2 then return {0, holder} end
  epoch = math.max(epoch, tonumber(redis.call('HGET', KEYS[i], 'epoch') or 0) or 0)
end
for i = 3, #KEYS do
  local holder = redis.call('HGET', KEYS[i], 'worker')
  if holder ~= me then
    local since = redis.call('HGET', KEYS[i], 'heard_until') or (holder and redis.call('ZSCORE', KEYS[2], holder))
    since = since and tonumber(since)
    if since then   -- refused where somebody has put no numbers there
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

# KEYS: the owners' hashes. ARGV: its name.
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


class Grant(NamedTuple):
    """What came of asking for pipelines: the epoch under which they are owned, or 0 and who owns
    one of them."""

    epoch: int
    holder: str = ""


class Lease:
    """One worker's, for as long as its connections live; the next ones get a new name."""

    def __init__(self, control: Connection, name: str, lease_ms: int) -> None:
        """`name` is no other lease's, ever; `lease_ms` is for how long its last words hold."""
        self._control, self.name, self._lease_ms = control, name, lease_ms
        self._epochs: dict[str, int] = {}  # by pipeline that it owns

    async def sign_on(self, connections: Iterable[Connection], report: dict[str, Any]) -> None:
        """Begins. The connections get the lease's name, so that a successor can close them.

        What bounds the memory of all clients together (`maxmemory-clients`) ends others'
        connections first.
        """
        for connection in connections:
            await connection.call("CLIENT", "SETNAME", self.name)
            with suppress(BusRefused):  # of a user who may not
                await connection.call("CLIENT", "NO-EVICT", "ON")
        await self._control.call("SET", fence_key(self.name), 1)
        await self.call_in(report)

    async def call_in(self, report: dict[str, Any]) -> None:
        """Says that the worker lives, and what of. Raises Fenced where another one owns what it
        owned."""
        keys = [fence_key(self.name), worker_key(self.name), ROLL, *map(owner_key, self._epochs)]
        told = await run_script(
            self._control,
            _CALL_IN,
            keys,
            orjson.dumps(report),
            self._lease_ms,
            self.name,
            FORGET_MS,
            *self._epochs.values(),
        )
        if not told:
            raise Fenced(
                "this worker was taken for dead, since it had not called in; it begins anew"
            )

    async def acquire(self, uids: Iterable[str], at_least: int = 0) -> Grant:
        """All of these pipelines or none, under an epoch above `at_least` and above every earlier
        one. Raises Fenced."""
        uids = list(uids)
        keys = [fence_key(self.name), ROLL, *map(owner_key, uids)]
        answer = await run_script(
            self._control, _ACQUIRE, keys, self.name, at_least, worker_key("")
        )
        if not answer:
            raise Fenced("this worker was taken for dead, and may own nothing; it begins anew")
        epoch, *names = answer
        if not epoch:
            return Grant(0, names[0].decode())
        self._epochs |= dict.fromkeys(uids, int(epoch))
        await self._close_connections(set(names))
        return Grant(int(epoch))

    async def release(self, uids: Iterable[str]) -> None:
        """These may be another's from now on."""
        released = list(uids)
        for uid in released:
            self._epochs.pop(uid, None)
        if released:
            await run_script(self._control, _RELEASE, [*map(owner_key, released)], self.name)

    async def declare_dead(self, name: str) -> None:
        """Fences another worker that is known to have ended, so that nobody waits for its lease to
        run out."""
        await self._control.call("DEL", worker_key(name), fence_key(name))

    async def sign_off(self) -> None:
        """The end; what it owned was released before."""
        await self.declare_dead(self.name)
        await self._control.call("ZREM", ROLL, self.name)

    async def _close_connections(self, names: set[bytes]) -> None:
        """Of workers that were taken for dead: what they have sent and the server has not read yet
        is read no more."""
        if not names:
            return
        try:
            clients: bytes = await self._control.call("CLIENT", "LIST")
            for client in map(_fields, clients.splitlines()):
                if client.get(b"name") in names:
                    await self._control.send(pack("CLIENT", "KILL", "ID", client[b"id"]))
        except BusRefused as error:
            log.warning(
                "connections_left_open",
                reason=str(error),
                remedy="let this user call CLIENT LIST and CLIENT KILL",
            )


def _fields(line: bytes) -> dict[bytes, bytes]:
    return dict(word.split(b"=", 1) for word in line.split(b" ") if b"=" in word)
