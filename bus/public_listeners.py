"""Who listens to which public swarm: one sorted set, in which a swarm's pipelines stand together,
by uid.

A pipeline that only speaks there, or whose people look at it, stands behind those that listen:
nothing is sent to it, but it
may be the one whose owner writes to the log what strangers publish.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Self
from zlib import crc32

from memrelay.bus.client.connection import NOW, Connection
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import LISTENERS, PUBLIC, swarm_key

LISTENS, ONLY_SPEAKS = "0", "1"  # in this order
BEFORE, BEHIND = "\n", "\v"  # what stands between a member's parts, and the next character

# KEYS: the set, the log. ARGV: from where to where the swarm's members stand, the log's length, the
# envelope, its digest, how a mid begins, and members: one of them has to be the first. The entry's
# id is what the server would give it: the mid has it.
_LOG = (
    NOW
    + """
local first = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, 1)[1]
for i = 7, #ARGV do
  if ARGV[i] == first then
    local last, number = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1], 0
    local ms, seq = string.match(last and last[1] or '0-0', '(%d+)-(%d+)')
    if tonumber(ms) >= now then now, number = tonumber(ms), tonumber(seq) + 1 end
    local id = string.format('%.0f-%.0f', now, number)
    local mid = ARGV[6] .. id .. '.0~' .. ARGV[5]
    return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], id, 'mid', mid, 'data', ARGV[4])
  end
end
"""
)


class Member(NamedTuple):
    """A pipeline on a public swarm."""

    swarm: str
    uid: str
    listens: bool

    @property
    def word(self) -> str:
        """As it stands in the set; what sorts by it sorts by swarm, then those that listen first,
        then by uid."""
        return BEFORE.join((self.swarm, LISTENS if self.listens else ONLY_SPEAKS, self.uid))

    @classmethod
    def of(cls, word: bytes) -> Self:
        """From the set."""
        swarm, kind, uid = word.decode().split(BEFORE)
        return cls(swarm, uid, kind == LISTENS)


async def all_members(line: ReconnectingConnection | Connection) -> list[Member]:
    """Everybody. Raises BusUnavailable or BusRefused."""
    return [Member.of(word) for word in await line.call("ZRANGE", LISTENERS, 0, -1)]


async def listeners_of(connection: Connection, swarm: str) -> list[str]:
    """The uids of the pipelines that listen to a swarm, in order. Raises BusUnavailable or
    BusRefused."""
    words: list[bytes] = await connection.call(
        "ZRANGEBYLEX", LISTENERS, *_span(f"{swarm}{BEFORE}{LISTENS}")
    )
    return [Member.of(word).uid for word in words]


def add_listener(members: Collection[Member]) -> bytes:
    """The command by which these are there; those that are stay."""
    return pack("ZADD", LISTENERS, *[word for member in members for word in ("0", member.word)])


def remove_listener(members: Collection[Member]) -> bytes:
    """The command by which these are there no more."""
    return pack("ZREM", LISTENERS, *[member.word for member in members])


def log_if_first(swarm: str, data: bytes, members: Sequence[Member], log_length: int) -> bytes:
    """The command that writes an envelope, which a stranger published, to a swarm's log; of all who
    ask one does it.

    It is the one that has the swarm's first pipeline among its own `members`.
    """
    return pack(
        "EVAL",
        _LOG,
        2,
        LISTENERS,
        swarm_key(PUBLIC, swarm),
        *_span(swarm),
        log_length,
        data,
        b"%08x" % crc32(data),
        f"{PUBLIC}/",
        *[member.word for member in members],
    )


def _span(beginning: str) -> tuple[str, str]:
    """Of all that begins so, and has more parts."""
    return f"[{beginning}{BEFORE}", f"({beginning}{BEHIND}"
