"""Reads INFO of the server: its version, memory, append-only file, and replicas."""

from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.embedded.binary import MINIMUM_VERSION
from memrelay.bus.errors import BusRefused, ServerTooOld


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


class ServerVersion(NamedTuple):
    """The program of a server and its version, such as `valkey` and `9.1.2`."""

    name: str
    version: str
    in_cluster: bool

    @property
    def is_too_old(self) -> bool:
        """Return whether it lacks commands that Memrelay needs."""
        return int(self.version.split(".")[0]) < MINIMUM_VERSION[0]


async def read_version(line: ReconnectingConnection) -> ServerVersion | None:
    """Return the version, None if the server does not report it. Raises BusUnavailable."""
    try:
        fields = parse_info(await line.call("INFO", "server"))
    except BusRefused:
        return None
    version = fields.get("valkey_version") or fields.get("redis_version", "")
    if not version.partition(".")[0].isdecimal():
        return None
    in_cluster = "cluster" in (fields.get("server_mode"), fields.get("redis_mode"))
    return ServerVersion(fields.get("server_name", "redis"), version, in_cluster)


async def require_version(line: ReconnectingConnection) -> None:
    """Raise ServerTooOld if the server says that it is. Raises BusUnavailable."""
    found = await read_version(line)
    if found is not None and found.is_too_old:
        raise ServerTooOld(
            f"the bus is {found.name} {found.version}, and Memrelay needs Redis or Valkey "
            f"{MINIMUM_VERSION[0]} or newer: update it, or leave bus.url empty to use the embedded "
            "server"
        )


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
