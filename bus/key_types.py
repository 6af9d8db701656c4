"""Of what type each key is. Where somebody has put another value at one, the server refuses every
command for it."""

from collections.abc import Mapping
from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import LISTENERS, REMAKE, ROLL, input_key, owner_key, stores_key, timers_key

NOTHING = "none"  # it is made when it is needed
SHARED: Mapping[str, str] = {
    ROLL: "zset",
    LISTENERS: "zset",
    REMAKE: "hash",
}  # without which no pipeline is served


class WrongType(NamedTuple):
    """A key with another type than it should have."""

    key: str
    kind: str
    wanted: str

    def __str__(self) -> str:
        """A sentence."""
        return f"{self.key} is a {self.kind}, and should be a {self.wanted}"

    @property
    def remedy(self) -> str:
        """What to do."""
        return f"find out what has written there; after DEL {self.key} it is made again"


def needed_keys(uid: str) -> dict[str, str]:
    """Those without which a pipeline cannot be served."""
    return {input_key(uid): "stream", owner_key(uid): "hash", stores_key(uid): "hash"}


def all_keys(uid: str) -> dict[str, str]:
    """All but the swarms' logs."""
    return needed_keys(uid) | {timers_key(uid): "hash"}


async def wrong_type_keys(
    connection: ReconnectingConnection, wanted: Mapping[str, str]
) -> list[WrongType]:
    """Those of these keys that are of another type. Raises BusUnavailable and BusRefused."""
    kinds = await connection.call_all([("TYPE", key) for key in wanted])
    return [
        WrongType(key, kind.decode(), wanted[key])
        for key, kind in zip(wanted, kinds, strict=True)
        if kind.decode() not in (NOTHING, wanted[key])
    ]
