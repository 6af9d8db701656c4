"""Serving processes: run the bus, workers and web servers until a signal ends them in order.

The caller passes the services. So each process imports only its own parts: a web server would add
15 MB to a worker.
"""

import asyncio
import ctypes
import gc
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Protocol

from memrelay.bus.client.reconnecting import Backoff, ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusError
from memrelay.cli.composition import NoBus, bus_address, run, run_with_settings
from memrelay.cli.imports import load_log_format
from memrelay.cli.logs import LogFormat
from memrelay.cli.open_files import WANTED_HANDLES
from memrelay.cli.settings import Settings
from memrelay.cli.tracing import stop_tracing
from memrelay.logs import get_logger
from memrelay.memory.errors import StoreBusy
from memrelay.worker.errors import first_cause
from memrelay.worker.waiting import wait

log = get_logger(__name__)


def raise_handle_limit() -> None:
    """Raise the limit of open files to WANTED_HANDLES, or as far as the system allows.

    Each listener takes one file handle and each open store three. A shell usually allows 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_HANDLES if hard == resource.RLIM_INFINITY else min(WANTED_HANDLES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS allows less than its hard limit.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# Closing a terminal sends SIGHUP. It stays ignored under `nohup`.
STOP_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def make_stop_event() -> asyncio.Event:
    """Return an event of the running loop that the first stop signal sets. Call in the main thread.

    Later signals are ignored. Handlers of the loop would end with the loop, and a second signal
    would then kill the process while it stops its server.
    """
    stop_requested, loop = asyncio.Event(), asyncio.get_running_loop()

    def request_stop(number: int, frame: FrameType | None) -> None:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        loop.call_soon_threadsafe(stop_requested.set)

    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, request_stop)
    return stop_requested


# Parameters of glibc's mallopt (malloc.h).
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 1024 * 1024


def tune_runtime() -> None:
    """Tune the garbage collector and the allocator. Call once, after all imports.

    Messages contain no reference cycles. At its defaults, the collector finds nothing and takes a
    tenth of the time of a batch. glibc's arenas, one per thread, keep about 8 MB of mixed work.
    One arena is enough, and large blocks are returned at once. A returned block costs its pages
    again at the next allocation, so one MULTI must not need a large block.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    # musl has no mallopt.
    if hasattr(libc, "mallopt"):
        for parameter, value in (
            (M_ARENA_MAX, 1),
            (M_TRIM_THRESHOLD, LARGE_BYTES),
            (M_MMAP_THRESHOLD, LARGE_BYTES),
        ):
            libc.mallopt(parameter, value)
        # Return what the imports left free: 1.6 MB.
        libc.malloc_trim(0)


# All processes of a Procfile start at once, so the bus may come up later.
BUS_START_TIMEOUT_S = 30.0
# A killed server loses no acknowledged message.
SERVER_GRACE_S = 1.5
# Time for the clients of the bus to disconnect. Process managers kill after 5 s.
DISCONNECT_TIMEOUT_S = 4.0
POLL_INTERVAL_S = 0.05
# Pauses between attempts to reach PostgreSQL double from the first to the longest.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0


class Service(Protocol):
    """A worker or a web server. `ready` is set when it serves."""

    ready: asyncio.Event

    async def run(self) -> None:
        """Serve until `stop` is called."""

    def stop(self) -> None:
        """Request the end of `run`."""


ServiceFactory = Callable[[Settings, Address], Service]
Prepare = Callable[[Settings, Sequence[Service]], Awaitable[None]]


def serve(
    *factories: ServiceFactory,
    with_bus: bool = False,
    prepare: Prepare | None = None,
    as_json: bool = False,
) -> None:
    """Serve until a stop signal, then stop the services in the given order.

    `with_bus` starts the embedded server, unless another server is configured. `prepare` runs when
    all services are ready. `as_json` logs JSON.
    """
    load_log_format()
    log_format: LogFormat | None = "json" if as_json else None
    raise_handle_limit()
    server = run_with_settings(_start_server, log_format) if with_bus else None
    try:
        run(lambda settings: _serve(settings, server, factories, prepare), log_format)
    finally:
        stop_tracing()
        if server is not None:
            server.stop(SERVER_GRACE_S)


def _start_server(settings: Settings) -> EmbeddedServer | None:
    """Start the embedded server, in the main thread. Return None if another one is configured."""
    if settings.bus.url:
        return None
    server = EmbeddedServer(
        settings.bus.data, str(settings.bus.server) if settings.bus.server else None
    )
    server.start()
    return server


async def _serve(
    settings: Settings,
    server: EmbeddedServer | None,
    factories: Sequence[ServiceFactory],
    prepare: Prepare | None,
) -> None:
    stop_requested = make_stop_event()
    address = await _wait_for_bus(settings, stop_requested)
    services = [make_service(settings, address) for make_service in factories]
    run_service = _run_again if settings.storage.url else _run_once
    tune_runtime()
    async with asyncio.TaskGroup() as tasks:
        running = [
            (service, tasks.create_task(run_service(service, stop_requested)))
            for service in services
        ]
        helpers = [tasks.create_task(server.supervise())] if server else []
        if prepare is not None:
            helpers.append(tasks.create_task(_prepare(settings, services, prepare)))
        await stop_requested.wait()
        for service, task in running:
            service.stop()
            await task
        if server is not None and not services:
            await _wait_for_disconnects(address)
        for task in helpers:
            task.cancel()


async def _run_once(service: Service, stop_requested: asyncio.Event) -> None:
    await service.run()


async def _run_again(service: Service, stop_requested: asyncio.Event) -> None:
    """Run a service until it is stopped. Start it again while PostgreSQL is down."""
    loop = asyncio.get_running_loop()
    backoff = Backoff(
        first_s=FIRST_PAUSE_S, most_s=LONGEST_PAUSE_S, healthy_after_s=LONGEST_PAUSE_S
    )
    while not stop_requested.is_set():
        began = loop.time()
        try:
            await service.run()
            return
        except* StoreBusy as errors:
            reason = str(first_cause(errors))
        life_s = loop.time() - began if service.ready.is_set() else 0
        service.ready.clear()
        pause_s = backoff.delay_s(life_s)
        log.warning("storage_unavailable", reason=reason, pause_s=pause_s)
        await wait(stop_requested, pause_s)


async def _prepare(settings: Settings, services: Sequence[Service], prepare: Prepare) -> None:
    for service in services:
        await service.ready.wait()
    await prepare(settings, services)


async def _wait_for_bus(settings: Settings, stop_requested: asyncio.Event) -> Address:
    """Return the address of the bus when it runs. Raises NoBus: after BUS_START_TIMEOUT_S."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BUS_START_TIMEOUT_S
    while True:
        try:
            return bus_address(settings)
        except NoBus:
            if loop.time() > deadline or stop_requested.is_set():
                raise
        await asyncio.sleep(POLL_INTERVAL_S)


async def _wait_for_disconnects(address: Address) -> None:
    """Wait for the clients of the bus. The same signal stops them, and they may still send."""
    with suppress(TimeoutError, BusError):
        async with asyncio.timeout(DISCONNECT_TIMEOUT_S), ReconnectingConnection(address) as bus:
            while b"\r\nconnected_clients:1\r\n" not in await bus.call("INFO", "clients"):
                await asyncio.sleep(POLL_INTERVAL_S)
