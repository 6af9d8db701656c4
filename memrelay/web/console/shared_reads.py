"""Reads of the bus that all open pages share: at most one of each kind per second."""

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import stores_key, swarm_key, webhook_changes_key
from memrelay.memory.control.catalog import Catalog
from memrelay.web.api.directory import Served
from memrelay.web.api.status import EVICTS, NOT_PERSISTENT
from memrelay.web.console.format import format_pause
from memrelay.web.server.cached_read import CachedRead

# The status of the system (memrelay/web/api/status.py).
STATUS = web.AppKey("status", CachedRead[dict[str, Any]])
# How long a pipeline is read after the last request of one of its pages.
WATCHED_S = 10.0
MAX_SWARMS = 20
Json = dict[str, Any]
NO_WORKERS = "No worker is running. Messages wait on the bus until one starts: memrelay worker"
NO_OWNER = "No worker serves this pipeline. Messages wait on the bus until one does."


class _Watched(NamedTuple):
    """A pipeline whose pages are open. `asked_at` is in seconds."""

    served: Served
    asked_at: float


class PipelineStates:
    """Reports whether something has changed in the pipelines whose pages are open.

    A state is a text that changes with every commit of a store of the pipeline, every message of a
    swarm, every listed request of a webhook, every dead letter and every deploy. `clock` returns
    seconds.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        catalog: Catalog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._catalog, self._clock = line, catalog, clock
        self._watched: dict[str, _Watched] = {}
        self._states = CachedRead(self._read, clock)

    async def get(self, served: Served, *, refresh: bool = False) -> str:
        """Return the state of a pipeline, at most one second old, or a new one if `refresh`.

        Raises BusError and StoreBusy.
        """
        uid = served.deployed.uid
        is_new = uid not in self._watched
        self._watched[uid] = _Watched(served, self._clock())
        states = await self._states.get(refresh=refresh or is_new)
        if uid not in states:
            # A shared read may have begun before this pipeline was watched.
            states = await self._states.get(refresh=True)
        return states[uid]

    async def _read(self) -> dict[str, str]:
        """Read the states of all watched pipelines with one call of the bus."""
        oldest = self._clock() - WATCHED_S
        self._watched = {uid: one for uid, one in self._watched.items() if one.asked_at >= oldest}
        watched = {uid: one.served for uid, one in self._watched.items()}
        reads = {uid: _commands(served) for uid, served in watched.items()}
        letters = await self._catalog.dead_letters.count()
        commands = [command for some in reads.values() for command in some]
        replies = iter(await self._line.call_all(commands, keep_refusals=True))
        return {
            uid: _digest(
                (served.deployed.hash, letters.get(uid, 0), [next(replies) for _ in reads[uid]])
            )
            for uid, served in watched.items()
        }


STATES = web.AppKey("states", PipelineStates)


def _commands(served: Served) -> list[Sequence[str | int]]:
    """Return the commands that read what changes in a pipeline."""
    logs = [
        ("XLEN", swarm_key(served.bundle.swarm_owner(swarm), swarm))
        for swarm in served.swarms[:MAX_SWARMS]
    ]
    uid = served.deployed.uid
    return [("HGETALL", stores_key(uid)), ("GET", webhook_changes_key(uid)), *logs]


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:16]


def find_row(status: Json, uid: str) -> Json | None:
    """Return the row of a pipeline in the status of the system."""
    rows: list[Json] = status["pipelines"]
    return next((row for row in rows if row["pipeline_uid"] == uid), None)


def list_notices(status: Json | None, served: Served) -> list[str]:
    """Return the warnings about a pipeline, none if the status is unknown."""
    row = find_row(status, served.deployed.uid) if status else None
    if status is None or row is None:
        return []
    if row["paused"]:
        return [format_pause(row["paused"])]
    if row["owner"]:
        return []
    return [NO_OWNER if status["workers"] else NO_WORKERS]


def describe_durability(status: Json) -> Json:
    """Return {meaning, is_lacking}: how safe acknowledged messages are on the bus."""
    meaning: str = status["durability"]["meaning"]
    return {"meaning": meaning, "is_lacking": meaning in (NOT_PERSISTENT, EVICTS)}
