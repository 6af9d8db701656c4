"""Reads INFO of the server: its memory, the size of its append-only file, and its replicas."""

from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused


class ServerFigures(NamedTuple):
    """Sizes in bytes. `max_memory` is 0 without a limit; `aof_bytes` is 0 without the file.

    `replicas` is the number of connected ones.
    """

    used_memory: int
    max_memory: int
    aof_bytes: int
    replicas: int


def parse_info(reply: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO."""
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


async def read_server_figures(line: ReconnectingConnection) -> ServerFigures | None:
    """Return the figures, or None if the server refuses INFO. Raises BusUnavailable."""
    try:
        sections = "memory", "persistence", "replication"
        replies = await line.call_all([("INFO", section) for section in sections])
    except BusRefused:
        return None
    fields = parse_info(b"".join(replies))
    names = "used_memory", "maxmemory", "aof_current_size", "connected_slaves"
    return ServerFigures(*(int(fields.get(name, 0)) for name in names))
