"""Redis types of Memrelay's keys, to name the key for which the server answers WRONGTYPE."""

from collections.abc import Mapping
from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import (
    all_cells,
    input_key,
    listeners_key,
    owner_key,
    reindex_key,
    stores_key,
    timers_key,
    workers_key,
)

# The server's type of a key that does not exist.
MISSING = "none"


class WrongType(NamedTuple):
    """A key whose value has another Redis type than Memrelay expects."""

    key: str
    kind: str
    expected: str

    def __str__(self) -> str:
        return f"{self.key} is a {self.kind}, and should be a {self.expected}"

    @property
    def remedy(self) -> str:
        """The command that repairs the key."""
        return f"find out which program wrote it, then run DEL {self.key}; Memrelay recreates it"


def shared_keys() -> dict[str, str]:
    """Return the expected type of each key of all pipelines together."""
    types = {listeners_key(): "zset"}
    for cell in all_cells():
        types |= {workers_key(cell): "zset", reindex_key(cell): "hash"}
    return types


def all_keys(uid: str) -> dict[str, str]:
    """Return the expected type of each key of a pipeline, except the logs of its swarms."""
    return {
        input_key(uid): "stream",
        owner_key(uid): "hash",
        stores_key(uid): "hash",
        timers_key(uid): "hash",
    }


async def wrong_type_keys(
    connection: ReconnectingConnection, expected: Mapping[str, str]
) -> list[WrongType]:
    """Return the keys that exist with another type than expected.

    Raises BusUnavailable and BusRefused.
    """
    kinds = await connection.call_all([("TYPE", key) for key in expected])
    return [
        WrongType(key, kind.decode(), expected[key])
        for key, kind in zip(expected, kinds, strict=True)
        if kind.decode() not in (MISSING, expected[key])
    ]
