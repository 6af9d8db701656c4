"""The primary that the Sentinels of an address name, as far as this process knows.

A primary that was paused or cut off past a failover still reports the role of a primary for about
ten seconds after it returns, so its own answer proves nothing. The config epoch of the Sentinels
rises with each failover.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from memrelay.bus.client.url import Address
from memrelay.logs import get_logger

log = get_logger(__name__)
# How long a majority must name another server under a lower epoch before it counts: Sentinels that
# lost their files count epochs from 0 again. Sentinels tell each other of a failover within 2 s.
CONTRADICTED_S = 10.0
Server = tuple[str, int]  # host and port


class Primary(NamedTuple):
    """A primary and its config epoch. A Sentinel that `sees_fault` cannot reach it."""

    epoch: int
    host: str
    port: int
    sees_fault: bool = False

    @property
    def server(self) -> Server:
        return self.host, self.port


class Abortable(Protocol):
    """A connection that can be cut at once."""

    def abort(self) -> None:
        """Close the socket."""


class KnownPrimary:
    """The primary with the highest config epoch that this process has seen.

    `asked_s` is when a majority of the Sentinels last answered (time.monotonic()), infinite while
    there is no majority: no append waits for Sentinels that are gone. All threads of the process
    share an instance, through `find_known_primary`. `clock` returns seconds as time.monotonic()
    does.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self.primary: Primary | None = None
        self.asked_s = float("-inf")
        # Since when a majority names another server under a lower epoch.
        self._contradicted_s: float | None = None
        self._lock = threading.Lock()
        self._open: WeakKeyDictionary[Abortable, tuple[Server, asyncio.AbstractEventLoop]] = (
            WeakKeyDictionary()
        )

    def take(self, answers: Sequence[Primary], *, is_majority: bool) -> None:
        """Take the answers of one round, at least one."""
        newest = max(answers)
        with self._lock:
            known, now_s = self.primary, self._clock()
            self.asked_s = now_s if is_majority else float("inf")
            if known is not None and newest.epoch <= known.epoch:
                is_named = any(answer.server == known.server for answer in answers)
                if is_named or not is_majority:
                    self._contradicted_s = None
                    return
                if self._contradicted_s is None:
                    self._contradicted_s = now_s
                if now_s - self._contradicted_s < CONTRADICTED_S:
                    return
            self.primary, self._contradicted_s = newest, None
        if known is not None and known.server != newest.server:
            log.warning("primary_replaced", group=self._name, epoch=newest.epoch)
        self._abort_others(newest.server)

    def is_current(self, server: Server) -> bool:
        """Return whether no other server is known to be the primary."""
        return self.primary is None or self.primary.server == server

    def add(self, connection: Abortable, server: Server) -> bool:
        """Register a connection of the running event loop, which is aborted once another server is
        the primary. Return whether `server` still is.
        """
        with self._lock:
            self._open[connection] = server, asyncio.get_running_loop()
        return self.is_current(server)

    def _abort_others(self, server: Server) -> None:
        with self._lock:
            others = [
                (connection, loop)
                for connection, (theirs, loop) in self._open.items()
                if theirs != server
            ]
        here = asyncio.get_running_loop()
        for connection, loop in others:
            if loop is here:
                connection.abort()
                continue
            with suppress(RuntimeError):  # the loop has ended, and its connections with it
                loop.call_soon_threadsafe(connection.abort)


_known: dict[tuple[tuple[Server, ...], str], KnownPrimary] = {}


def find_known_primary(address: Address) -> KnownPrimary:
    """Return what this process knows of the primary of an address with Sentinels."""
    key = address.sentinels, address.service
    return _known.get(key) or _known.setdefault(key, KnownPrimary(address.service))
