"""Whether the server takes writes. It is tried: one that is full, or only a replica, answers reads
all the same."""

import os
import time

from bus.line import Line

KEPT_MS = 10_000


async def try_a_write(line: Line) -> None:
    """Raises BusRefused and BusUnavailable."""
    await line.call("SET", f"memrelay:probe:{os.getpid()}", time.time_ns(), "PX", KEPT_MS)
