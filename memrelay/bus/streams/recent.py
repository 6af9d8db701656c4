"""Reads the heads of the latest log entries, without their texts, which may be long."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from memrelay.bus.client.reconnecting import NOW, ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.keys import swarm_key

# Bytes of an envelope that contain the name of its sender.
HEAD_BYTES = 600
# KEYS: a log. ARGV: the age of the oldest entry in ms, the number of entries, bytes of an envelope.
# Returns [mid, head, ...], the newest entry first.
_READ_HEADS = (
    NOW
    + """
local found, oldest = {}, string.format('%.0f', now - ARGV[1])
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', oldest, 'COUNT', ARGV[2])) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  found[#found + 1] = fields.mid or ''
  found[#found + 1] = string.sub(fields.data or '', 1, ARGV[3])
end
return found
"""
)


class RecentEntry(NamedTuple):
    """An entry of a log. `head` is the beginning of its envelope."""

    mid: str
    head: bytes


async def read_recent(
    line: ReconnectingConnection,
    logs: Sequence[tuple[str, str]],
    *,
    within_ms: int,
    limit: int,
) -> list[list[RecentEntry]]:
    """Return up to `limit` entries of each log (uid, swarm) that are at most `within_ms` old.

    A log that the server refuses to read has none. Raises BusUnavailable.
    """
    commands = [
        ("EVAL", _READ_HEADS, 1, swarm_key(uid, swarm), within_ms, limit, HEAD_BYTES)
        for uid, swarm in logs
    ]
    if not commands:
        return []
    return [_parse(reply) for reply in await line.call_all(commands, keep_refusals=True)]


def _parse(reply: Any) -> list[RecentEntry]:
    if isinstance(reply, BusRefused):
        return []
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [RecentEntry(mid.decode(errors="replace"), head) for mid, head in pairs]
