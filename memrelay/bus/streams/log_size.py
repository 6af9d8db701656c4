"""Bounds the bytes of swarm logs. A stream can limit only its number of entries by itself."""

import asyncio
from collections.abc import Iterable
from typing import Any

import hiredis

from memrelay.bus.client.resp import pack
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.logs import get_logger

log = get_logger(__name__)
# Logs are measured after this part of the limit was written.
PART = 8

# KEYS: a log. ARGV: the limit in bytes. Deletes the oldest entries of a log beyond the limit, so
# that it is seldom trimmed. Entries differ in size, so it measures again. One entry always remains.
_TRIM = """
local limit, size = tonumber(ARGV[1]), 0
local function measure()
  size = redis.call('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0) or 0
  return size
end
while measure() > limit do
  local length = redis.call('XLEN', KEYS[1])
  if length < 2 then break end
  redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(1, math.floor(length * 0.9 * limit / size)))
end
return size
"""


class LogTrimmer:
    """Trims logs to about `most_bytes` of the server's memory, over the fenced `writer`."""

    def __init__(self, writer: FencedWriter, most_bytes: int) -> None:
        self._writer, self._most_bytes = writer, most_bytes
        # By log: the most bytes that can have been written since it was measured.
        self._written: dict[str, int] = {}
        self._has_logged = False

    def note(self, logs: Iterable[str], size: int) -> None:
        """Note that one of these logs, or several together, get messages of `size` bytes.

        Call it after the messages were sent.
        """
        for name in logs:
            written = self._written.get(name, 0) + size
            if written * PART > self._most_bytes:
                command = pack("EVAL", _TRIM, 1, name, self._most_bytes)
                self._writer.send([command], 1).add_done_callback(self._finish)
                written = 0
            self._written[name] = written

    def _finish(self, sent: asyncio.Future[list[Any]]) -> None:
        """Log the first refusal. After another fault the session ends."""
        if sent.cancelled() or sent.exception() is not None or self._has_logged:
            return
        (reply,) = sent.result()
        if isinstance(reply, hiredis.ReplyError):
            self._has_logged = True
            log.warning(
                "logs_not_trimmed",
                reason=str(reply),
                remedy="run `memrelay doctor`, which names the key or the missing permission",
            )
