"""Which pipelines listen to which public swarms: one sorted set, ordered by swarm.

A pipeline that only publishes on a swarm sorts behind the listeners. It receives nothing, but its
owner may be the one that logs messages which other clients PUBLISH.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Self
from zlib import crc32

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import PUBLIC, SWARM, UID, listeners_key, swarm_key
from memrelay.bus.malformed import MALFORMED

# In this order within a swarm.
LISTENS, ONLY_SPEAKS = "0", "1"
# The separator between the parts of a member, and the character after it.
BEFORE, BEHIND = "\n", "\v"

# KEYS: the set, the log. ARGV: the first and last possible member of the swarm, the log's length,
# the envelope, its digest, the prefix of a mid, members. Logs the envelope if one of these members
# is the first of the swarm. The script chooses the entry's ID, because the mid contains it.
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
        """Return the member of the set, which sorts by swarm, listeners first, then by uid."""
        return BEFORE.join((self.swarm, LISTENS if self.listens else ONLY_SPEAKS, self.uid))

    @classmethod
    def of(cls, word: bytes) -> Self:
        """Parse a member of the set. Raises ValueError."""
        swarm, kind, uid = word.decode().split(BEFORE)
        if not SWARM.fullmatch(swarm) or kind not in (LISTENS, ONLY_SPEAKS):
            raise ValueError(f"no member of a public swarm: {word[:100]!r}")
        if not UID.fullmatch(uid):
            raise ValueError(f"not a uid: {uid[:100]!r}")
        return cls(swarm, uid, kind == LISTENS)


async def list_members(client: ReconnectingConnection) -> list[Member]:
    """Return all pipelines on all public swarms. Raises BusUnavailable and BusRefused."""
    return _parse_members(await client.call("ZRANGE", listeners_key(), 0, -1))


async def list_listeners(client: ReconnectingConnection, swarm: str) -> list[str]:
    """Return the sorted uids of the pipelines that listen to a swarm.

    Raises BusUnavailable and BusRefused.
    """
    words: list[bytes] = await client.call(
        "ZRANGEBYLEX", listeners_key(), *_span(f"{swarm}{BEFORE}{LISTENS}")
    )
    return [member.uid for member in _parse_members(words)]


def _parse_members(words: Iterable[bytes]) -> list[Member]:
    """Parse members, without those in another form, which another program added."""
    found = []
    for word in words:
        try:
            found.append(Member.of(word))
        except ValueError as error:
            MALFORMED.drop("public_listener", error)
    return found


def pack_add_members(members: Collection[Member]) -> bytes:
    words = [word for member in members for word in ("0", member.word)]
    return pack("ZADD", listeners_key(), *words)


def pack_remove_members(members: Collection[Member]) -> bytes:
    return pack("ZREM", listeners_key(), *[member.word for member in members])


def pack_log_if_first(swarm: str, data: bytes, members: Sequence[Member], log_length: int) -> bytes:
    """Return the packed command that logs an envelope which another client published.

    Every worker on the swarm sends it. It has an effect only for the worker that has the swarm's
    first pipeline among its `members`.
    """
    return pack(
        "EVAL",
        _LOG,
        2,
        listeners_key(),
        swarm_key(PUBLIC, swarm),
        *_span(swarm),
        log_length,
        data,
        b"%08x" % crc32(data),
        f"{PUBLIC}/",
        *[member.word for member in members],
    )


def _span(prefix: str) -> tuple[str, str]:
    """Return the range of the members that continue after this prefix."""
    return f"[{prefix}{BEFORE}", f"({prefix}{BEHIND}"
