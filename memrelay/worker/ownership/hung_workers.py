"""Ends workers of this host that hang: they lost their lease and still lock a store.

Such a worker cannot continue, because its successor fenced it. It holds up the successor until its
process ends.
"""

import os
import signal
import socket
import time
from collections.abc import Iterable

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import fence_key, workers_key
from memrelay.logs import get_logger
from memrelay.memory.engine.lock_holder import find_writer
from memrelay.memory.engine.memory_id import store_path
from memrelay.worker.ownership.host_locks import HostLocks

log = get_logger(__name__)
# How long a worker may keep the lock after it lost its lease. One that does not hang needs less.
GRACE_S = 2.0


class HungWorkers:
    """Looks at the locks of stores that a worker owns and cannot use."""

    def __init__(self, host_locks: HostLocks, control: ReconnectingConnection) -> None:
        self._host_locks, self._control = host_locks, control
        # By store: the process that locks it, and since when (time.monotonic()).
        self._writers: dict[str, tuple[int, float]] = {}

    async def look(self, busy: Iterable[str]) -> None:
        """End the hung workers that lock one of these stores. Raises BusError."""
        now, writers = time.monotonic(), dict[str, tuple[int, float]]()
        for name in busy:
            process = find_writer(store_path(self._host_locks.root, name))
            before, since = self._writers.get(name, (0, now))
            if process:
                writers[name] = (process, since if process == before else now)
        self._writers = writers
        for name, (process, since) in writers.items():
            if now - since >= GRACE_S:
                await self._end_if_hung(name, process)

    async def _end_if_hung(self, name: str, process: int) -> None:
        try:
            handle = os.pidfd_open(process)
        except OSError:  # it has ended
            return
        try:
            # The handle belongs to the process that has the lock now, and to no later one.
            identity = self._host_locks.find_identity(process)
            if not identity or await self._has_lease(process):
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            log.warning(
                "hung_worker_ended",
                pid=process,
                worker=identity,
                memory_id=name,
                reason="it lost its lease and still locked the store",
            )
        except ProcessLookupError:  # it has ended meanwhile
            return
        except PermissionError as error:
            log.warning(
                "hung_worker_not_ended",
                pid=process,
                memory_id=name,
                reason=str(error),
                remedy=f"end the process yourself: kill -9 {process}",
            )
        finally:
            os.close(handle)

    async def _has_lease(self, process: int) -> bool:
        """Return whether a lease of a process of this host is not fenced."""
        (cell,) = self._control.cells
        names: list[bytes] = await self._control.call("ZRANGE", workers_key(cell), 0, -1)
        of_process = f"{socket.gethostname()}:{process}:".encode()
        leases = [name.decode() for name in names if name.startswith(of_process)]
        keys = [fence_key(lease) for lease in leases]
        return bool(keys and await self._control.call("EXISTS", *keys))
